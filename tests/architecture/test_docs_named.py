"""Pages name tests that prove their statements: each of those tests exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMED = re.compile(r"`((?:\w+/)*\w+\.py)::(test_\w+)`")
DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


@cache
def defined() -> dict[str, set[str]]:
    """Return the tests of each file, by its path below tests/."""
    folder = ROOT / "tests"
    return {
        path.relative_to(folder).as_posix(): set(DEFINED.findall(path.read_text("utf-8")))
        for path in sorted(folder.rglob("test_*.py"))
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_a_page_names_exists(page: Path) -> None:
    tests = defined()
    named = NAMED.findall(page.read_text("utf-8"))
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not any(name in found for path, found in tests.items() if f"/{path}".endswith(f"/{file}"))
    ]
    assert missing == []
