"""Converts messages, leases, holders and figures to JSON objects and table rows. Their names are documented."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rmq_cli.output import ago, preview
from rmq_core.admin.verbs import can
from rmq_core.envelope.codec import MESSAGE_FIELDS, Message, message_of, plain_fields
from rmq_core.errors import MalformedMessage, UnknownPayloadKind
from rmq_core.kernel.base import tools_of
from rmq_core.orchestrate.attention import expiries
from rmq_core.reports import (
    Client,
    GroupStats,
    LeaseInfo,
    Publication,
    PublishReport,
    QueueStats,
    ReasonGroup,
    ShardStats,
)

_READ = 10_000


class MessageHolder(NamedTuple):
    """A worker or consumer that holds messages, in a discipline without leases. owner: its name, if one is stored."""

    owner: str
    messages: int
    first: Message | None


def held_leases(queue: Any, most: int) -> list[tuple[LeaseInfo, Message | None]]:
    """Return the leases that expire first, and the first unsettled message of each if it can be read."""
    infos: list[LeaseInfo] = queue.admin.leases(most) if can(queue, "leases") else []
    able = can(queue, "browse_lease")
    return [(info, _first(queue, info.id) if able else None) for info in infos]


def held_otherwise(queue: Any) -> list[MessageHolder]:
    """Return who holds messages that are in no lease; reads no more than 10,000 messages."""
    found: dict[str, MessageHolder] = {}
    if can(queue, "browse_lease"):
        return []
    cursor: Any = ()
    seen = 0
    while cursor is not None and seen < _READ:
        page = tools_of(queue).export_page("leased", cursor)
        for one in page.messages:
            if one.owner is not None or one.lease is None:
                owner = one.owner or ""
                known = found.get(owner) or MessageHolder(owner, 0, _message_in(one.envelope))
                found[owner] = known._replace(messages=known.messages + 1)
        seen, cursor = seen + len(page.messages), page.cursor
    return sorted(found.values(), key=lambda holder: -holder.messages)


def _first(queue: Any, lease_id: str) -> Message | None:
    found: list[Message] = queue.admin.browse_lease(lease_id, 0, 25)
    return found[0] if found else None


def _message_in(envelope: bytes) -> Message | None:
    try:
        return message_of(envelope)
    except MalformedMessage:
        return None


STATS = (
    "queue", "discipline", "ready", "oldest", "delayed", "leased", "leases", "held for", "dead", "paused", "isolated",
)  # fmt: skip
STATS_OPTIONAL = frozenset(("paused", "isolated"))
_FIRST, _LAST = ("id", "age", "deliveries"), ("why", "payload")
_OTHERS = tuple(field for field in MESSAGE_FIELDS if field.name not in {*_FIRST, "enqueued_at"})
MESSAGES = (*_FIRST, *(field.name for field in _OTHERS), *_LAST)
OPTIONAL = frozenset(field.name for field in _OTHERS if field.header)
"""Columns of headers, which most messages lack."""
REASONS = ("letters", "reason", "oldest", "newest", "example")
LEASES = (
    "lease", "owner", "state", "messages", "settled", "takeovers", "since", "ends in", "isolated", "first message",
)  # fmt: skip
HOLDERS = ("owner", "messages", "first message")
PUBLICATIONS = ("publication", "messages", "waiting", "leased", "acked", "dead", "removed", "publishers", "ended (UTC)")
SHARDS = ("shard", "slot", "ready", "oldest", "delayed", "leased", "dead", "state")
CLIENTS = ("role", "name", "host", "pid", "version", "last there", "settings")
GROUPS = ("group", "priority", "waiting", "leases", "can be claimed", "isolated")


def message_record(queue: str, message: Message) -> dict[str, Any]:
    """Return a message as a JSON object.

    `payload` is as published; bytes, and payloads of an unknown kind, are in `payload_base64` instead. `enqueued_at` is
    None for a queue that stores only ids.
    """
    payload = _decoded(message)
    shown = (
        {"payload_base64": base64.b64encode(payload).decode()} if isinstance(payload, bytes) else {"payload": payload}
    )
    failures = [{**one._asdict(), "at": one.at.isoformat()} for one in message.history]
    return {
        "queue": queue,
        **plain_fields(message),
        **shown,
        "headers": dict(message.headers),
        "history": failures,
    }


def message_row(message: Message, around: str | None = None) -> tuple[object, ...]:
    """Return a message as a row under `MESSAGES`; `why` is the last failure. around: a text that the payload shows."""
    age = time.time() - message.enqueued_ms / 1000 if message.enqueued_ms else None
    last = message.history[-1] if message.history else None
    why = f"{last.kind} {last.reason}".strip() if last else None
    others = (preview(str(field.of(message))) or None for field in _OTHERS)
    return (message.id, ago(age), message.deliveries, *others, why, _payload(message, around))


def due_in(due: datetime | None) -> str | None:
    """Return how long the delay of a message lasts."""
    return ago(max(0.0, due.timestamp() - time.time())) if due else None


def reason_record(queue: str, group: ReasonGroup) -> dict[str, Any]:
    return {
        "queue": queue,
        "reason": group.reason,
        "count": group.count,
        "oldest": group.oldest.isoformat() if group.oldest else None,
        "newest": group.newest.isoformat() if group.newest else None,
        "example": group.example,
    }


def reason_row(group: ReasonGroup) -> tuple[object, ...]:
    now = time.time()
    oldest, newest = (ago(now - at.timestamp()) if at else None for at in (group.oldest, group.newest))
    return (group.count, group.reason, oldest and f"{oldest} ago", newest and f"{newest} ago", group.example)


def lease_record(queue: str, lease: LeaseInfo, first: Message | None = None) -> dict[str, Any]:
    """Return a lease as a JSON object; `first` is the id of its first unsettled message, if it was read."""
    return {
        "queue": queue,
        "id": lease.id,
        "owner": lease.owner,
        "state": lease.state,
        "count": lease.count,
        "settled": lease.settled,
        "takeovers": lease.takeovers,
        "claimed_at": lease.claimed_at.isoformat(),
        "deadline": lease.deadline.isoformat() if lease.deadline else None,
        "isolation": lease.isolation._asdict() if lease.isolation else None,
        "first": first.id if first else None,
    }


def lease_row(lease: LeaseInfo, first: Message | None = None) -> tuple[object, ...]:
    now = time.time()
    left = None if lease.deadline is None else lease.deadline.timestamp() - now
    ends = "never" if left is None else "expired" if left <= 0 else ago(left)
    since = ago(now - lease.claimed_at.timestamp())
    why = f"failed together {lease.isolation.failures} times" if lease.isolation else None
    held = (lease.count, lease.settled, lease.takeovers)
    times = expiries(first) if first else 0
    suspected = f" (expired {times} times)" if times > 1 else ""
    return (lease.id, lease.owner or None, lease.state, *held, since, ends, why, first and f"{named(first)}{suspected}")


def shard_record(queue: str, shard: ShardStats) -> dict[str, Any]:
    """Return a shard as JSON, with the numbers of what it holds if it answered."""
    about = {"queue": queue, **shard._asdict()}
    return about | {"stats": shard.stats and shard.stats._asdict()}


def shard_row(shard: ShardStats) -> tuple[object, ...]:
    """Return a shard as a table row."""
    state = f"away: {shard.error}" if shard.error else "draining" if shard.draining else ""
    if shard.stats is None:
        return (shard.name, shard.slot, *[None] * 5, state)
    ready, delayed, leased, _, dead, oldest, *_ = shard.stats
    return (shard.name, shard.slot, ready, ago(oldest), delayed, leased, dead, state)


def group_record(queue: str, group: GroupStats) -> dict[str, Any]:
    until = group.until.isoformat() if group.until else None
    return {"queue": queue, **group._asdict(), "until": until}


def client_record(queue: str, client: Client) -> dict[str, Any]:
    """Return a client as JSON; `at` is when it was there last."""
    return {"queue": queue, **client._asdict(), "at": client.at.isoformat()}


def client_row(client: Client, processes: int = 1) -> tuple[object, ...]:
    """Return a client, or the last of several processes of one program, as a row under `CLIENTS`."""
    since = max(0.0, time.time() - client.at.timestamp())
    gone = ", gone or hangs" if client.role == "consumer" else ", idle or ended"
    there = f"{ago(since)} ago" + ("" if client.there else gone)
    pid = str(client.pid) if processes == 1 else f"{client.pid} and {processes - 1} more"
    about = (client.role, client.name or None, client.host, pid, client.version)
    return (*about, there, client.settings or None)


def group_row(group: GroupStats) -> tuple[object, ...]:
    left = group.until.timestamp() - time.time() if group.until else 0
    ready = "now" if group.ready else f"in {ago(left)}" if left > 0 else "when a lease ends" if group.leases else None
    return (
        group.name or None,
        group.priority or None,
        group.waiting,
        group.leases,
        ready,
        "yes" if group.isolated else None,
    )


def publication_record(queue: str, found: Publication) -> dict[str, Any]:
    ended = found.ended.isoformat() if found.ended else None
    return {"queue": queue, **found._asdict(), "ended": ended}


def publication_row(found: Publication) -> tuple[object, ...]:
    return (*found[:-1], f"{found.ended:%Y-%m-%d %H:%M:%S}" if found.ended else None)


def holder_record(queue: str, holder: MessageHolder) -> dict[str, Any]:
    return {
        "queue": queue,
        "owner": holder.owner,
        "count": holder.messages,
        "first": holder.first.id if holder.first else None,
    }


def holder_row(holder: MessageHolder) -> tuple[object, ...]:
    return (holder.owner or None, holder.messages, named(holder.first))


def named(message: Message | None) -> str | None:
    """Return the id of a message and the beginning of its payload."""
    return f"{message.id} {preview(_payload(message), 40)}" if message else None


def stats_record(
    queue: str, discipline: str, stats: QueueStats, shards: Sequence[ShardStats] | None = None
) -> dict[str, Any]:
    """Return the fields of QueueStats as JSON; ages are in seconds. `shards`: how many there are, and answer."""
    answer = sum(each.error is None for each in shards or ())
    spread = {"shards": {"all": len(shards), "answer": answer}} if shards else {}
    return {"queue": queue, "discipline": discipline, **stats._asdict(), **spread}


def stats_row(queue: str, discipline: str, stats: QueueStats) -> tuple[object, ...]:
    ready, delayed, leased, leases, dead, oldest, paused, isolated, held = stats
    rare = paused or None, isolated or None
    return (queue, discipline, ready, ago(oldest), delayed, leased, leases, ago(held), dead, *rare)


def report_record(queue: str, discipline: str, report: PublishReport) -> dict[str, Any]:
    return {"queue": queue, "discipline": discipline, **report._asdict(), "ids": list(report.ids)}


def _decoded(message: Message) -> Any:
    """Return the payload, as bytes if it is of a kind that this version does not know."""
    try:
        return message.payload
    except UnknownPayloadKind:
        return message.raw


def _payload(message: Message, around: str | None = None) -> str:
    """Return a payload as it is stored, which is what a search compares with."""
    payload, stored = _decoded(message), message.raw.decode(errors="replace")
    if around is not None and around in stored:
        return preview(stored, around=around)
    return preview(f"{len(payload)} bytes: {payload[:60]!r}" if isinstance(payload, bytes) else stored)
