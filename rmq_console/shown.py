"""Queues, leases and messages as plain JSON values for the browser, and why a queue needs attention. Pure.

`signs` returns such reasons, the most urgent first: their kind, and the numbers that the page puts into words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, NamedTuple

from rmq_console.host import HolderOf
from rmq_core import Message
from rmq_core.admin.verbs import Verb
from rmq_core.messages import MESSAGE_FIELDS, Failure
from rmq_core.observe.history import HistoryPoint
from rmq_core.orchestrate import AlertLimits
from rmq_core.reports import (
    PRESENT_FOR_S,
    Client,
    GroupStats,
    LeaseInfo,
    Publication,
    QueueStats,
    SettledRecord,
    ShardStats,
    skews,
)

REASONS = (
    "error", "dying", "crashing", "failing", "expired", "old", "growing", "held", "unclaimed", "paused", "isolated",
    "dead",
)  # fmt: skip
"""The kinds of reasons in the order of urgency."""
NOTHING = len(REASONS)


class Trend(NamedTuple):
    """What happened lately in a queue. dead: new dead letters. grown: how many more messages are ready than before.

    newest: the seconds since the newest dead letter failed; None if there is none, or if its time is not known.
    crashes: in how many of the last 15 minutes leases expired or were expired, as those of holders that were killed.
    failed, acked: how many deliveries of these minutes failed, and how many messages were acked. idle: the seconds
    since the end of the last minute in which somebody claimed; None if no client writes a history.
    """

    dead: int = 0
    grown: int = 0
    newest: float | None = None
    crashes: int = 0
    failed: int = 0
    acked: int = 0
    idle: float | None = None


_RECENT = 15
"""How many minutes show whether consumers crash or fail."""


def trend_in(points: Sequence[HistoryPoint], now: datetime) -> Trend:
    """Return the trend in the points of the last hour. A backlog that is already being worked off does not grow."""
    known = [point.ready for point in points[len(points) // 2 :] if point.ready is not None]
    rising = bool(known) and known[-1] >= 0.9 * max(known)
    lately = points[-_RECENT:]
    quiet = list(takewhile(lambda point: not point.claimed, reversed(points)))
    told = any(point.published or point.claimed or point.ready is not None for point in points)
    return Trend(
        sum(point.dead for point in points), known[-1] - known[0] if rising else 0,
        crashes=sum(point.reclaimed > 0 for point in lately),
        failed=sum(point.nacked + point.reclaimed + point.taken_over for point in lately),
        acked=sum(point.acked for point in lately),
        idle=max(0.0, (now - quiet[-1].at).total_seconds()) if told and quiet else 0.0 if told else None,
    )  # fmt: skip


def signs(row: Mapping[str, Any], trend: Trend, limits: AlertLimits) -> list[dict[str, Any]]:
    """Return the reasons why the queue of a row of the overview needs attention, the most urgent first."""
    age, dead, newest = row.get("oldest_age") or 0, row.get("dead", 0), trend.newest
    target = limits.stats.oldest_age.warn if limits.stats.oldest_age else None
    held, longest = row.get("oldest_lease") or 0, limits.stats.lease_age.warn if limits.stats.lease_age else None
    failing = trend.failed > max(limits.failed, trend.acked)
    idle = min(age, trend.idle or 0)  # consumers are missed since messages wait
    waits = idle > limits.unclaimed and not row.get("leased") and not row.get("paused")
    recent = trend.dead or (newest is not None and newest < limits.dead_within)
    found: list[dict[str, Any] | None] = [
        {"kind": "error"} if "error" in row else None,
        {"kind": "dying", "count": trend.dead, "within": limits.dead_within} if dead and recent else None,
        {"kind": "crashing", "minutes": trend.crashes} if trend.crashes > 1 else None,
        {"kind": "failing", "failed": trend.failed, "acked": trend.acked} if failing else None,
        {"kind": "expired"} if row.get("late") else None,
        {"kind": "old", "age": age, "target": target} if target is not None and age > target else None,
        {"kind": "growing", "more": trend.grown} if trend.grown > limits.growth else None,
        {"kind": "held", "age": held, "target": longest} if longest is not None and held > longest else None,
        {"kind": "unclaimed", "idle": idle} if waits else None,
        {"kind": "paused"} if row.get("paused") else None,
        {"kind": "isolated", "count": row["isolated"]} if row.get("isolated") else None,
        {"kind": "dead", "count": dead, "newest": newest} if dead and not recent else None,
    ]
    return [each for each in found if each is not None]


def attention(row: Mapping[str, Any]) -> int:
    """Return how urgently a row needs attention, 0 the most; `NOTHING` if it does not."""
    found = row.get("signs")
    return REASONS.index(found[0]["kind"]) if found else NOTHING


def size(row: Mapping[str, Any]) -> float:
    """Return the key by which rows with the same reason are sorted, largest first.

    It is the number of dead letters if these are the reason; else the age of the oldest ready message or of the oldest
    lease, whichever is larger, in whole minutes.
    """
    found = row.get("signs")
    if found and found[0]["kind"] in {"dying", "dead"}:
        return float(row["dead"])
    return max(row.get("oldest_age") or 0, row.get("oldest_lease") or 0) // 60


def is_idle(row: Mapping[str, Any]) -> bool:
    """Return whether nothing waits, and nothing is worked on."""
    return not any(row.get(kind) for kind in ("ready", "leased", "delayed"))


SHOWN_BYTES = 32_768
SHOWN_BINARY = 512
VERB = ("name", "word", "needs", "label", "picture", "states", "asks", "explains", "warns", "done")
PAYLOAD_KINDS = {"j": "json", "s": "text", "b": "bytes"}


def stats_shown(name: str, discipline: str, stats: QueueStats) -> dict[str, Any]:
    """Return a row of the overview."""
    return {"name": name, "discipline": discipline, **stats._asdict()}


def verb_shown(verb: Verb) -> dict[str, Any]:
    """Return what makes the button of a verb; the key `lacks` of a queue says whether it has the method `name`."""
    takes = [{**each._asdict(), "kind": each.kind.__name__} for each in verb.takes]
    return {**{name: getattr(verb, name) for name in VERB}, "takes": takes}


def lease_shown(lease: LeaseInfo, holder_of: HolderOf) -> dict[str, Any]:
    """Return a lease and, if its owner names one, the work that holds it."""
    return {
        "id": lease.id,
        "owner": lease.owner,
        "holder": holder_of(lease.owner),
        "state": lease.state,
        "count": lease.count,
        "settled": lease.settled,
        "takeovers": lease.takeovers,
        "claimed_at": ms_of(lease.claimed_at),
        "deadline": None if lease.deadline is None else ms_of(lease.deadline),
        "isolation": None if lease.isolation is None else str(lease.isolation),
    }


def client_shown(client: Client) -> dict[str, Any]:
    """Return a client, and whether it is there now."""
    since = (datetime.now(UTC) - client.at).total_seconds()
    return {**client._asdict(), "at": ms_of(client.at), "there": since < PRESENT_FOR_S}


def group_shown(group: GroupStats) -> dict[str, Any]:
    """Return a group with the time until which it rests."""
    return {**group._asdict(), "until": None if group.until is None else ms_of(group.until)}


def publication_shown(publication: Publication) -> dict[str, Any]:
    """Return the counts of a publication with the time of its end."""
    return {**publication._asdict(), "ended": None if publication.ended is None else ms_of(publication.ended)}


def shards_shown(shards: Sequence[ShardStats]) -> list[dict[str, Any]]:
    """Return the shards of a queue, each with what it holds, or with the error if it does not answer.

    skew: how many times the mean of ready messages it has; None for one that gets no more messages.
    """
    of_mean = skews(shards)
    return [
        {
            "name": each.name, "slot": each.slot, "draining": each.draining, "skew": of_mean.get(each.name),
            "stats": each.stats and each.stats._asdict(), "error": each.error,
        }
        for each in shards
    ]  # fmt: skip


def settled_shown(record: SettledRecord, holder_of: HolderOf) -> dict[str, Any]:
    """Return how many messages of a lease were acked, when and by whom."""
    return {
        "acked": record.acked,
        "owner": record.owner,
        "holder": holder_of(record.owner),
        "at": ms_of(record.at),
    }


def expired(leases: Sequence[LeaseInfo]) -> bool:
    """Return whether one of the leases has expired and was not reclaimed yet."""
    now = datetime.now(UTC)
    return any(lease.deadline is not None and lease.deadline <= now for lease in leases)


def message_shown(
    message: Message, holder_of: HolderOf, due: datetime | None = None, most: int = SHOWN_BYTES
) -> dict[str, Any]:
    """Return a message with its payload; a payload of more than `most` bytes is cut, `size` is that of the whole."""
    text, cut = _payload(message, most)
    return {
        **{field.name: _plain(field.of(message)) for field in MESSAGE_FIELDS},
        "kind": PAYLOAD_KINDS.get(message.kind, "bytes"),
        "payload": text,
        "cut": cut,
        "size": len(message.raw),
        "headers": dict(message.headers),
        "due": None if due is None else ms_of(due),
        "history": [_failure_shown(failure, holder_of) for failure in message.history],
    }


def _plain(value: Any) -> Any:
    return ms_of(value) if isinstance(value, datetime) else value


def _payload(message: Message, most: int) -> tuple[str, bool]:
    if message.kind in "js":
        return message.raw[:most].decode(errors="ignore"), len(message.raw) > most
    return message.raw[:SHOWN_BINARY].hex(" "), len(message.raw) > SHOWN_BINARY


def _failure_shown(failure: Failure, holder_of: HolderOf) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "at": ms_of(failure.at),
        "owner": failure.owner,
        "holder": holder_of(failure.owner),
        "reason": failure.reason,
    }


def ms_of(moment: datetime) -> int:
    """Return a time as milliseconds since 1970."""
    return round(moment.timestamp() * 1000)
