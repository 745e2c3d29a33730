"""Code that a page shows from an example file is contained in that file word for word: the tests run the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SHOWN = re.compile(
    r"^<!-- not run: from (\S+), which the tests run -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PARTS = re.compile(
    r"^<!-- not run: parts of (\S+), which the tests run -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def shown(page: Path) -> list[tuple[str, str]]:
    """Return the files from which a page shows code, each with the code."""
    return SHOWN.findall(page.read_text("utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if shown(page)], ids=lambda page: page.stem)
def test_code_from_an_example_file_is_in_that_file(page: Path) -> None:
    for name, code in shown(page):
        assert code in (ROOT / name).read_text("utf-8"), f"{name} says it otherwise"


def test_lines_of_examples_in_the_readme_are_in_their_files_in_this_order() -> None:
    blocks = PARTS.findall((ROOT / "README.md").read_text("utf-8"))
    assert len(blocks) == 3
    for name, code in blocks:
        rest = iter([line.strip() for line in (ROOT / name).read_text("utf-8").splitlines()])
        missing = [line for line in map(str.strip, code.splitlines()) if line and line not in rest]
        assert missing == [], f"{name} says it otherwise"
