"""The report of a benchmark lists met goals, missed goals with the difference, and figures without a measurement."""

from __future__ import annotations

import pytest

from benchmarks.figures import Figure, Findings, Spread, Table, Target
from benchmarks.report import Machine, render
from benchmarks.targets import at_least, at_most

MET = Figure("publish", Spread(0.9, 0.85, 0.95), context="9,000/s")
MISSED = Figure("lease", Spread(600, 600, 600), "B")


def report(*figures: Figure, tables: tuple[Table, ...] = (), **targets: Target) -> str:
    findings = Findings(list(figures), list(tables))
    return render(findings, targets, {"lease": "a list has a head."}, Machine(["7.0.15"]))


def test_a_row_contains_the_figure_its_target_and_its_spread() -> None:
    row = "| publish | 0.90 (0.85 to 0.95) | ≥ 0.8 | yes | 9,000/s |"
    assert row in report(MET, publish=at_least(0.8))


def test_a_missed_target_states_by_how_much_and_why() -> None:
    text = report(MISSED, lease=at_most(480))
    assert "| lease | 600 B | ≤ 480 B | **no**: 0.80 of the target |  |" in text
    assert "**lease** (600 B instead of ≤ 480 B): a list has a head." in text


def test_a_missed_target_without_a_known_reason_states_that() -> None:
    assert "not explained yet" in report(MET, publish=at_least(2))


def test_a_figure_that_was_not_measured_is_reported() -> None:
    text = report(MET, publish=at_least(0.8), lease=at_most(480))
    assert "| lease | not measured | ≤ 480 | **no** |  |" in text
    assert "1 of 2 targets are met." in text


def test_nothing_is_explained_when_nothing_is_missed() -> None:
    assert "missed" not in report(MET, publish=at_least(0.8))


def test_a_figure_without_a_target_is_only_shown() -> None:
    assert "| lease | 600 B |  |  |  |" in report(MISSED)


@pytest.mark.parametrize("line", ["Redis 7.0.15", "redis ", "hiredis ", "cores", "load average"])
def test_the_machine_and_the_versions_are_named(line: str) -> None:
    assert line in report()


def test_tables_follow_with_their_notes() -> None:
    text = report(tables=(Table("Flight", ("call", "1"), [("claim", "60 µs")], "Why."),))
    assert "## Flight\n\nWhy.\n\n| call | 1 |\n| --- | --- |\n| claim | 60 µs |" in text
