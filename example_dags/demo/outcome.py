"""The result of the main job in one orchestrator, and the expected result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from example_dags.demo.cluster import NODES
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
    """`figures` has the keys of EXPECTED, `seconds` those of STEPS; `crash` describes the kill of a driver.

    shards: by the slot of each, how many messages a lease held there.
    """

    orchestrator: str
    figures: Mapping[str, int]
    seconds: Mapping[str, float]
    results: Path
    plot: Path
    crash: str | None = None
    shards: Mapping[int, int] = field(default_factory=dict)

    def mismatches(self) -> list[str]:
        """Return one sentence for each figure that differs from its expected value."""
        return [
            f"{self.orchestrator}: {name} {self.figures.get(name)}, not {expected:,}"
            for name, expected in EXPECTED.items()
            if self.figures.get(name) != expected
        ]

    def misplaced(self) -> list[str]:
        """Return a sentence if the items were not in as many shards as the cluster has nodes."""
        held = [count for count in self.shards.values() if count]
        if (len(held), sum(held)) == (NODES, ITEMS):
            return []
        return [f"{self.orchestrator}: the shards held {held}, not {ITEMS:,} items in {NODES}"]


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return one table of all outcomes, and below it the tables and the picture of each."""
    figures = [[name, *(f"{outcome.figures[name]:,}" for outcome in outcomes)] for name in EXPECTED]
    seconds = [[f"seconds: {step}", *(f"{outcome.seconds[step]:.1f}" for outcome in outcomes)] for step in STEPS]
    header = ["figure", *(outcome.orchestrator for outcome in outcomes)]
    return "\n".join([table([header, *figures, *seconds]), *(_where(outcome) for outcome in outcomes)])


def table_of_shards(outcomes: Sequence[Outcome], node_of: Callable[[int], str]) -> str:
    """Return a table of the shards of each outcome's queue, in the order of their slots."""
    rows = [
        [outcome.orchestrator, f"{slot:,}", node_of(slot), f"{count:,}"]
        for outcome in outcomes
        for slot, count in sorted(outcome.shards.items())
    ]
    return table([["shards", "slot", "node", "items claimed there"], *rows])


def _where(outcome: Outcome) -> str:
    found = {"crash": outcome.crash, "tables": outcome.results, "picture to open": outcome.plot}
    return "\n".join(f"{outcome.orchestrator:<8} {what:<15} {where}" for what, where in found.items() if where)
