"""Why a queue needs attention, in words, and which queue needs it most: one definition for the console and `rmq`.

`signs` returns such reasons, the most urgent first. A row is what a list of queues has of one of them: its numbers as
in `QueueStats`, `late` (a lease has expired and nobody has reclaimed it), or `error`; and then its `signs`. All but
`suspects` is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rmq_core.admin.verbs import can
from rmq_core.kernel.settings import PRESENT_S
from rmq_core.messages import Message
from rmq_core.observe.history import HistoryPoint
from rmq_core.orchestrate.limits import AlertLimits
from rmq_core.reports import Client, LeaseInfo
from rmq_core.twin import awaited, twins

_STUCK = ("old", "growing", "held", "unclaimed", "paused")
_RANKS: tuple[tuple[str, ...], ...] = (
    ("error",), ("dying",), ("crashing",), ("failing",), ("expired",), _STUCK, ("isolated",), ("dead",),
)  # fmt: skip
"""The kinds of reasons in the order of urgency; those of one rank say that work does not go on."""
_RANK_OF = {kind: at for at, kinds in enumerate(_RANKS) for kind in kinds}
MINUTES = 60
"""How many minutes of a queue's history show what happened lately."""


_CRASHING = "leases expired in {} of the last {} minutes: a message may be killing its workers"
_CALM = 2  # the minute that has begun, and one more, may have no crash although they go on
_CRASHED = "leases expired in {} of the last {} minutes, but in none of the last {}"
_OLD = "the oldest message has waited for {}, longer than the target of {}"
_GROWING = "growing: {:,} more ready messages than half an hour ago"
_HELD = "a lease has been held for {}, longer than {}: its holder may hang, although its heartbeats go on"
_UNCLAIMED = "messages are ready, and nobody has claimed any for {}"
_ISOLATED = "{:,} isolated: they failed together and are tried apart"


class Sign(NamedTuple):
    """A reason why a queue needs attention. text: in words; empty for an error, which is shown itself."""

    kind: str
    text: str = ""


class Trend(NamedTuple):
    """What happened lately in a queue. dead: new dead letters. grown: how many more messages are ready than before.

    newest: the seconds since the newest dead letter failed; None if there is none, or if its time is not known.
    crashes: in how many of the last 15 minutes leases expired or were expired, as those of holders that were killed;
    calm: in how many minutes since then none did.
    failed, acked: how many deliveries of these minutes failed, and how many messages were acked. idle: for how many
    seconds nobody has claimed; None if neither a history nor a consumer's record tells. lone: whether programs are
    known that use the queue, and none of them consumed within a day.
    """

    dead: int = 0
    grown: int = 0
    newest: float | None = None
    crashes: int = 0
    calm: int = 0
    failed: int = 0
    acked: int = 0
    idle: float | None = None
    lone: bool = False

    @property
    def crashing(self) -> bool:
        """Whether consumers crash again and again."""
        return self.crashes > 1


_RECENT = 15
"""How many minutes show whether consumers crash or fail."""


def trend_in(
    points: Sequence[HistoryPoint], now: datetime, letters: Sequence[Message] = (), clients: Sequence[Client] = ()
) -> Trend:
    """Return the trend in the points of the last hour. A backlog that is already being worked off does not grow.

    letters: the newest dead letter, if there is one. clients: the programs that recorded themselves.
    """
    known = [point.ready for point in points[len(points) // 2 :] if point.ready is not None]
    rising = bool(known) and known[-1] >= 0.9 * max(known)
    lately = points[-_RECENT:]
    return Trend(
        sum(point.dead for point in points), known[-1] - known[0] if rising else 0,
        newest=(now - letters[0].history[-1].at).total_seconds() if letters and letters[0].history else None,
        crashes=sum(point.reclaimed > 0 for point in lately),
        calm=next((back for back, point in enumerate(reversed(lately)) if point.reclaimed), 0),
        failed=sum(point.nacked + point.reclaimed + point.taken_over for point in lately),
        acked=sum(point.acked for point in lately),
        idle=_idle(points, now, clients),
        lone=bool(clients) and not any(each.role == "consumer" for each in clients),
    )  # fmt: skip


def _idle(points: Sequence[HistoryPoint], now: datetime, clients: Sequence[Client]) -> float | None:
    """Return for how many seconds nobody has claimed.

    A client's count of claims has its time; one of an earlier version was made at some time of its minute. Without a
    history, the newest record of a consumer tells: one that is there makes another within the minute.
    """
    if any(point.published or point.claimed or point.ready is not None for point in points):
        busy = next((point for point in reversed(points) if point.claimed), None)
        after = 0 if busy is None else busy.seconds if busy.last_claim is None else busy.last_claim
        since = (busy or points[0]).at + timedelta(seconds=after)
    elif consumers := [each.at for each in clients if each.role == "consumer"]:
        since = max(consumers) + timedelta(seconds=PRESENT_S)
    else:
        return None
    return max(0.0, (now - since).total_seconds())


def expired(leases: Iterable[LeaseInfo], now: datetime) -> bool:
    """Return whether one of the leases has expired and was not reclaimed yet."""
    return any(lease.deadline is not None and lease.deadline <= now for lease in leases)


def signs(row: Mapping[str, Any], trend: Trend, limits: AlertLimits) -> list[Sign]:
    """Return the reasons why the queue of a row needs attention, the most urgent first."""
    age, dead, newest = row.get("oldest_age") or 0, row.get("dead", 0), trend.newest
    target = limits.stats.oldest_age.warn if limits.stats.oldest_age else None
    held, longest = row.get("oldest_lease") or 0, limits.stats.lease_age.warn if limits.stats.lease_age else None
    failing = trend.failed > max(limits.failed, trend.acked)
    idle = min(age, trend.idle or 0)  # consumers are missed since messages wait
    waits = idle > limits.unclaimed and not row.get("leased") and not row.get("paused")
    recent = trend.dead or (newest is not None and newest < limits.dead_within)
    found = {
        "error": "" if "error" in row else None,
        "dying": _dying(dead, trend, limits.dead_within) if dead and recent else None,
        "crashing": _crashing(trend) if trend.crashing else None,
        "failing": _failing(trend.failed, trend.acked) if failing else None,
        "expired": "expired lease: no consumer has taken its messages back yet" if row.get("late") else None,
        "old": _OLD.format(lasting(age), lasting(target)) if target is not None and age > target else None,
        "growing": _GROWING.format(trend.grown) if trend.grown > limits.growth else None,
        "held": _HELD.format(lasting(held), lasting(longest)) if longest is not None and held > longest else None,
        "unclaimed": _unclaimed(idle, lone=trend.lone) if waits else None,
        "paused": "paused: claims return no messages until it is resumed" if row.get("paused") else None,
        "isolated": _ISOLATED.format(row["isolated"]) if row.get("isolated") else None,
        "dead": _dead(dead, newest) if dead and not recent else None,
    }
    return [Sign(kind, text) for kind, text in found.items() if text is not None]


def _unclaimed(idle: float, *, lone: bool) -> str:
    text = _UNCLAIMED.format(lasting(idle) if idle < 3540 else "an hour or more")
    return f"{text}: no known consumer" if lone else text


def _crashing(trend: Trend) -> str:
    text = _CRASHED if trend.calm > _CALM else _CRASHING
    return text.format(trend.crashes, _RECENT, trend.calm)


class Suspect(NamedTuple):
    """A message that may be killing its workers. expired: how many of its deliveries ended with an expired lease.

    owner: of all of these leases, empty if there were several. A message that kills its workers also expires at others.
    """

    id: str
    expired: int
    owner: str = ""


_LEASES, _MESSAGES, _MOST = 25, 50, 3


def expiries(message: Message) -> int:
    """Return how many deliveries of a message expired, of those that its history keeps."""
    return sum(failure.kind == "expired" for failure in message.history)


async def _suspects(_: bool, queue: Any) -> list[Suspect]:
    """Return the messages of a queue whose deliveries expired twice or more, those with the most first, at most three.

    Looks at the leases that expire first and at the messages that are claimed next: expired ones return to the front.
    """
    found: list[Message] = []
    for lease in await awaited(queue.admin.leases(_LEASES)) if can(queue, "browse_lease") else []:
        found += await awaited(queue.admin.browse_lease(lease.id, 0, _MESSAGES))
    for state in ("isolated", "ready") if can(queue, "browse") else ():
        found += (await awaited(queue.admin.browse(state, 0, _MESSAGES))).messages
    counted = {each.id: Suspect(each.id, expiries(each), _only_owner(each)) for each in found}
    most = sorted(counted.values(), key=lambda each: -each.expired)[:_MOST]
    return [each for each in most if each.expired > 1]


def _only_owner(message: Message) -> str:
    owners = {failure.owner for failure in message.history if failure.kind == "expired"}
    return owners.pop() if len(owners) == 1 else ""


suspects, async_suspects = twins(_suspects)


def needs_attention(row: Mapping[str, Any]) -> bool:
    """Return whether there is a reason why the queue of a row needs attention."""
    return bool(row.get("signs"))


def urgency(row: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the key by which rows are sorted; the queue that needs attention most is first.

    Rows of the same rank are ordered by their dead letters if these are the reason. If work does not go on, the power
    of ten of the messages that wait for it comes first, so that one late message is not before many; leased ones count
    if a lease is held for long. Then comes the age of the oldest ready message or of the oldest lease, whichever is
    larger. Ages are whole minutes, so that rows do not change places often. Queues in which nothing waits and nobody
    works are last.
    """
    kinds = {each.kind for each in row.get("signs") or ()}
    rank = min((_RANK_OF[kind] for kind in kinds), default=len(_RANKS))
    stuck = row.get("ready", 0) + (row.get("leased", 0) if "held" in kinds else 0) if rank == _RANK_OF["old"] else 0
    size = max(row.get("oldest_age") or 0, row.get("oldest_lease") or 0) // 60
    if rank in {_RANK_OF["dying"], _RANK_OF["dead"]}:
        size = row["dead"]
    idle = not any(row.get(kind) for kind in ("ready", "leased", "delayed"))
    return rank, -(len(str(stuck)) if stuck else 0), -size, idle


def lasting(seconds: float) -> str:
    """Return a duration for people, as the console shows it: `42 s`, `3 min`, `5 h 10 min`, `2 d 4 h`."""
    if seconds < 100:
        return f"{_rounded(max(0, seconds)) if seconds >= 1 else 0} s"
    minutes = _rounded(seconds / 60)
    hours = minutes // 60
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"


def _rounded(value: float) -> int:
    return int(value + 0.5)


def _many(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _dying(dead: int, trend: Trend, within: float) -> str:
    span = lasting(within)
    lately = f"{_many(trend.dead, 'dead letter')} in the last {'hour' if span == '1 h' else span}"
    return lately if trend.dead else _dead(dead, trend.newest)


def _failing(failed: int, acked: int) -> str:
    few = f"only {acked:,}" if acked else "no"
    were = "message was" if acked == 1 else "messages were"
    return f"{_many(failed, 'delivery', 'deliveries')} failed in the last {_RECENT} minutes, and {few} {were} acked"


def _dead(dead: int, newest: float | None) -> str:
    return _many(dead, "dead letter") + ("" if newest is None else f", the newest {lasting(newest)} old")
