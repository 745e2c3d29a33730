"""The report of the conformance suite, made of what its tests saw: a plugin for pytest that `make conformance` loads.

python -m pytest -p tests.core.conformance.report --conformance-report=FILE tests/core/test_conformance.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.core.conformance.promises import rows
from tests.core.conformance.subject import capabilities_of
from tests.servers import CLUSTERS

RECORD = "conformance"
SIGNS = {"kept": "✓", "refused": "refused"}
HEAD = """# Conformance

What each discipline promises through the queue protocol, as its tests saw it on every server.

A cell holds the number of test runs, sync and async:

- **✓**: the promises were kept.
- **refused**: the discipline does not declare the capability. The tests saw that it raises `Unsupported` and sends
  nothing. If the capability has no call to refuse, they saw what the discipline does instead.
- **✗**: runs that failed.
"""


class Trial(NamedTuple):
    """One promise, tried once."""

    discipline: str
    capability: str
    sentence: str
    place: str
    version: str
    verdict: str


_trials: list[Trial] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance-report", type=Path, help="the file in which to keep the report")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the last result of each test; a test that did not reach its end counts as `failed`."""
    trials = [Trial(*trial) for name, trial in report.user_properties if name == RECORD]
    if trials and report.when == "call":
        _trials.append(trials[-1])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the report, and save it."""
    if not _trials:
        return
    text = "\n".join(render(_trials))
    terminalreporter.section("conformance")
    terminalreporter.write_line(text)
    path = config.getoption("--conformance-report")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", "utf-8")


def render(trials: Iterable[Trial]) -> Iterator[str]:
    """Return the lines of the report: a table for each discipline."""
    trials = list(trials)
    places = {trial.place: trial.version for trial in trials}
    yield HEAD
    for discipline in dict.fromkeys(trial.discipline for trial in trials):
        declared = capabilities_of(discipline)
        yield f"## {discipline}\n"
        yield f"Payload: {declared.payload}. Order: {declared.order}.\n"
        yield f"| | {' | '.join(_title(*place) for place in places.items())} |"
        yield f"|---|{'---|' * len(places)}"
        for row in rows():
            cells = (_cell(trials, (discipline, row, place)) for place in places)
            yield f"| {row} | {' | '.join(cells)} |"
        yield ""


def rows_of(text: str, discipline: str) -> dict[str, list[str]]:
    """Return the cells of each row of a discipline's table, parsed from a report."""
    table = text.partition(f"\n## {discipline}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines[2:]}


def _title(place: str, version: str) -> str:
    return f"{version}, cluster" if place in CLUSTERS else version


def _cell(trials: Iterable[Trial], at: tuple[str, str, str]) -> str:
    seen = Counter(trial.verdict for trial in trials if (trial.discipline, trial.capability, trial.place) == at)
    if seen["failed"]:
        return f"✗ {seen['failed']} of {seen.total()}"
    return " ".join(f"{SIGNS[verdict]} {count}" for verdict, count in seen.items())
