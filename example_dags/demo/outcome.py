"""The result of the main job in one orchestrator, and the expected result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from example_dags.demo.table import table
from example_dags.flights import AIRPORTS, DEPARTURES, UNITED_DEPARTURES

ITEMS = len(AIRPORTS) * 365
EXPECTED = {
    "items published": ITEMS,
    "duplicates refused": ITEMS,
    "items claimed": ITEMS,
    "items acked": ITEMS,
    "dead letters": 0,
    "items left in the queue": 0,
    "rows written": DEPARTURES,
    "rows written, United": UNITED_DEPARTURES,
}

STEPS = ("publish", "wait", "Spark", "report")


@dataclass(frozen=True)
class Outcome:
    """`figures` has the keys of EXPECTED, `seconds` those of STEPS; `crash` describes the kill of a driver."""

    orchestrator: str
    figures: Mapping[str, int]
    seconds: Mapping[str, float]
    results: Path
    plot: Path
    crash: str | None = None

    def mismatches(self) -> list[str]:
        """Return one sentence for each figure that differs from its expected value."""
        return [
            f"{self.orchestrator}: {name} {self.figures.get(name)}, not {expected:,}"
            for name, expected in EXPECTED.items()
            if self.figures.get(name) != expected
        ]


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return one table of all outcomes, and below it the tables and the picture of each."""
    figures = [[name, *(f"{outcome.figures[name]:,}" for outcome in outcomes)] for name in EXPECTED]
    seconds = [[f"seconds: {step}", *(f"{outcome.seconds[step]:.1f}" for outcome in outcomes)] for step in STEPS]
    header = ["figure", *(outcome.orchestrator for outcome in outcomes)]
    return "\n".join([table([header, *figures, *seconds]), *(_where(outcome) for outcome in outcomes)])


def _where(outcome: Outcome) -> str:
    found = {"crash": outcome.crash, "tables": outcome.results, "picture to open": outcome.plot}
    return "\n".join(f"{outcome.orchestrator:<8} {what:<15} {where}" for what, where in found.items() if where)
