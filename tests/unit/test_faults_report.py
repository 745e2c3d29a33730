from __future__ import annotations

import json
from dataclasses import asdict

from tests.faults.report import Cell, Figure, Page

ZEROS = ("lost", "stale")


def page(*cells: Cell) -> Page:
    return Page("some-faults", "# Faults\n", "- **lost**: gone\n", ZEROS, list(cells))


def test_a_cell_fails_when_a_count_that_must_be_zero_is_not() -> None:
    text = "\n".join(
        page(
            Cell("worker killed", "doorbell", {"messages": 4, "lost": 0, "stale": 0}),
            Cell("worker killed", "claim", {"messages": 4, "lost": 2, "stale": 0}),
        ).lines()
    )
    assert "| | doorbell | claim |\n|---|---|---|\n| worker killed | ✓ | ✗ 2 lost |" in text
    assert "| worker killed | claim | 4 | 2 | 0 |" in text


def test_an_impossible_cell_states_why_and_one_that_was_not_tried_states_that() -> None:
    text = "\n".join(
        page(
            Cell("worker killed", "doorbell", {"lost": 0}),
            Cell("tick timeout", "claim", reason="there is no tick"),
        ).lines()
    )
    assert "| worker killed | ✓ | not tried |" in text
    assert "| tick timeout | not tried | n/a |" in text
    assert "- n/a, tick timeout, claim: there is no tick" in text
    assert "| tick timeout | claim |" not in text


def test_a_row_contains_a_figure_and_its_bound() -> None:
    filled = page()
    filled.figures.append(Figure("publish to run", "7.1 s", "≤ 6 s", met=False))
    assert "| publish to run | 7.1 s | ≤ 6 s | **no** |" in "\n".join(filled.lines())


def test_a_page_is_restored_from_json() -> None:
    filled = page(Cell("worker killed", "doorbell", {"lost": 0}), Cell("tick timeout", "claim", reason="no tick"))
    filled.figures.append(Figure("publish to run", "7.1 s", "≤ 6 s", met=False))
    assert Page.made_of(json.loads(json.dumps(asdict(filled)))) == filled
