"""Why a queue needs an operator's attention, the most urgent reason first. Pure.

`signs` returns reasons as plain JSON: their kind, and the numbers that the page puts into words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rmq_core.history import HistoryPoint
from rmq_core.work import AlertLimits

KINDS = ("error", "dying", "crashing", "expired", "old", "growing", "paused", "isolated", "dead")
"""The kinds of reasons in the order of urgency."""
NOTHING = len(KINDS)


class Trend(NamedTuple):
    """What happened lately in a queue. dead: new dead letters. grown: how many more messages are ready than before.

    newest: the seconds since the newest dead letter failed; None if there is none, or if its time is not known.
    crashes: in how many of the last 15 minutes leases expired or were expired, as those of holders that were killed.
    """

    dead: int = 0
    grown: int = 0
    newest: float | None = None
    crashes: int = 0


def trend_in(points: Sequence[HistoryPoint]) -> Trend:
    """Return the trend in the points of the last hour. A backlog that is already being worked off does not grow."""
    known = [point.ready for point in points[len(points) // 2 :] if point.ready is not None]
    rising = bool(known) and known[-1] >= 0.9 * max(known)
    crashes = sum(point.reclaimed > 0 for point in points[-15:])
    return Trend(sum(point.dead for point in points), known[-1] - known[0] if rising else 0, crashes=crashes)


def signs(row: Mapping[str, Any], trend: Trend, limits: AlertLimits) -> list[dict[str, Any]]:
    """Return the reasons why the queue of a row of the overview needs attention, the most urgent first."""
    age, dead, newest = row.get("oldest_age") or 0, row.get("dead", 0), trend.newest
    target = limits.stats.oldest_age.warn if limits.stats.oldest_age else None
    recent = trend.dead or (newest is not None and newest < limits.dead_within)
    found: list[dict[str, Any] | None] = [
        {"kind": "error"} if "error" in row else None,
        {"kind": "dying", "count": trend.dead, "within": limits.dead_within} if dead and recent else None,
        {"kind": "crashing", "minutes": trend.crashes} if trend.crashes > 1 else None,
        {"kind": "expired"} if row.get("late") else None,
        {"kind": "old", "age": age, "target": target} if target is not None and age > target else None,
        {"kind": "growing", "more": trend.grown} if trend.grown > limits.growth else None,
        {"kind": "paused"} if row.get("paused") else None,
        {"kind": "isolated", "count": row["isolated"]} if row.get("isolated") else None,
        {"kind": "dead", "count": dead, "newest": newest} if dead and not recent else None,
    ]
    return [each for each in found if each is not None]


def attention(row: Mapping[str, Any]) -> int:
    """Return how urgently a row needs attention, 0 the most; `NOTHING` if it does not."""
    found = row.get("signs")
    return KINDS.index(found[0]["kind"]) if found else NOTHING
