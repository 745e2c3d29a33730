"""docs/evidence.md names the tests that hold what the pages promise: it misses none, and each of the tests exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SECTION = re.compile(r"^## \[[^\]]+\]\((\S+)\)$\n+((?:\|.*\n)+)", re.MULTILINE)
NAMED = re.compile(r"`((?:\w+/)*\w+\.py)::(test_\w+)`")
DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
CELL = re.compile(r"(?<!\\)\|")
ROW = re.compile(r"^(?:\|.*\n)+", re.MULTILINE)


def plain(text: str) -> str:
    """Return a text without links, emphasis and line breaks."""
    return re.sub(r"\s+", " ", LINK.sub(r"\1", text).replace("**", "")).strip()


def rows_of(table: str) -> list[list[str]]:
    """Return the cells of the rows of a table, without its head."""
    return [[plain(cell) for cell in CELL.split(line.strip()[1:-1])] for line in table.splitlines()[2:]]


EVIDENCE = {page: rows_of(table) for page, table in SECTION.findall((DOCS / "evidence.md").read_text("utf-8"))}
"""For each page, the rows (promise, tests)."""
PARTLY = {
    "explanation/spark-guarantees.md", "how-to/payloads.md", "how-to/spark-submitters.md", "reference/connections.md",
    "reference/spark-source.md", "reference/spark-versions.md",
}  # fmt: skip
"""Pages whose tables also have rows that follow from others, or say what Redis, Spark or a platform does."""


@cache
def defined() -> set[str]:
    """Return all tests, by the path of their file below tests/."""
    folder = ROOT / "tests"
    return {
        f"{path.relative_to(folder).as_posix()}::{name}"
        for path in sorted(folder.rglob("test_*.py"))
        for name in DEFINED.findall(path.read_text("utf-8"))
    }


@pytest.mark.parametrize("page", EVIDENCE)
def test_every_promise_stands_on_its_page_and_its_tests_exist(page: str) -> None:
    text = plain((DOCS / page).read_text("utf-8"))
    gone = [promise for promise, _ in EVIDENCE[page] if not all(part in text for part in promise.split(" · "))]
    assert gone == [], f"{page} has other words now: correct or delete these rows of docs/evidence.md"
    named = {promise: [f"{file}::{name}" for file, name in NAMED.findall(tests)] for promise, tests in EVIDENCE[page]}
    missing = [(promise, [*{*tests} - defined()]) for promise, tests in named.items() if not {*tests} <= defined()]
    assert missing == [], "docs/evidence.md names tests that do not exist"
    assert all(named.values()), "docs/evidence.md names no test for a promise"


@pytest.mark.parametrize("page", sorted(EVIDENCE.keys() - PARTLY))
def test_a_row_beside_promises_is_one_too(page: str) -> None:
    promised = {promise for promise, _ in EVIDENCE[page]}
    for table in ROW.findall((DOCS / page).read_text("utf-8")):
        names = [row[0] if len(row[0]) > 3 else f"{row[0]} · {row[1]}" for row in rows_of(table)]
        held = [name in promised for name in names]
        unheld = [name for name, has in zip(names, held, strict=True) if not has]
        assert not any(held) or unheld == [], f"name the tests that hold these rows of {page} in docs/evidence.md"


def test_other_pages_name_no_tests() -> None:
    pages = {page.relative_to(DOCS).as_posix(): page.read_text("utf-8") for page in DOCS.rglob("*.md")}
    assert [name for name, text in pages.items() if NAMED.search(text)] == ["evidence.md"]
