"""Comparable snapshots of a queue and of results, without what differs between runs: ids, tokens, times."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import redis

from rmq_core import Lease
from rmq_core.envelope import codec
from rmq_core.reports import Published, PublishReport

Shape = tuple[bytes, int, tuple[str, ...]]


def of_queue(client: redis.Redis, name: str) -> dict[str, Any]:
    """Return everything relevant in a queue: payloads in order, counts, leases, records, number of tokens."""
    prefix = f"rmq:{{{name}}}:"
    return {
        "ready": _waiting(client, prefix),
        "delayed": sorted(_shapes(client.zrange(prefix + "delayed", 0, -1))),
        "dead": _shapes(client.lrange(prefix + "dead", 0, -1)),
        "completed": _shapes(client.lrange(prefix + "completed", 0, -1)),
        "failed": _shapes(client.lrange(prefix + "failed", 0, -1)),
        "leases": [_lease(client, prefix, lease) for lease in client.zrange(prefix + "leases", 0, -1)],
        "done": sorted(_done(client, key) for key in client.keys(prefix + "done:*")),
        "fence": client.get(prefix + "fence"),
        "strays": len(client.keys(prefix + "lease:*")) - client.zcard(prefix + "leases"),
    }


def of_result(result: Any) -> Any:
    """Return what a call returned or raised."""
    if isinstance(result, Lease):
        payloads = [message.payload for message in result.messages] if result.complete else None
        name = result.id if result.named else "~"
        return name, result.owner, result.count, result.takeovers, result.deadline is None, payloads
    if isinstance(result, Published):
        return "accepted" if result.accepted else "duplicate"
    if isinstance(result, PublishReport):
        return (*result[:3], tuple(one is not None for one in result.ids))
    if isinstance(result, datetime):
        return "a time"
    if isinstance(result, Exception):
        return type(result), of_result(getattr(result, "report", None))
    return result


def _shapes(envelopes: list[bytes]) -> list[Shape]:
    return [_shape(envelope) for envelope in envelopes]


def _shape(envelope: bytes) -> Shape:
    parts = codec.split(envelope)
    kinds = tuple(line.split("\t")[0] for line in parts.history.decode().splitlines())
    return parts.payload, parts.deliveries, kinds


def _waiting(client: redis.Redis, prefix: str) -> Any:
    """Return the ready messages in order, or by group and number, with the records of groups but for their times."""
    if client.type(prefix + "ready") != b"string":
        return _shapes(client.lrange(prefix + "ready", 0, -1))
    messages = {field: _shape(envelope) for field, envelope in client.hgetall(prefix + "grouped").items()}
    records = {name: record.split()[:7] for name, record in client.hgetall(prefix + "groups").items()}
    holds = sorted(tuple(client.hgetall(key).items()) for key in client.keys(prefix + "holds:*"))
    expiring = client.zrange(prefix + "expiring", 0, -1), client.llen(prefix + "overdue")
    return client.get(prefix + "ready"), messages, records, holds, expiring


def _lease(client: redis.Redis, prefix: str, lease: bytes) -> tuple[Any, ...]:
    name = lease.decode()
    head, *envelopes = client.lrange(f"{prefix}lease:{name}", 0, -1)
    _, state, _, takeovers, returned, owner = head.decode().split(" ", 5)
    settled = client.get(f"{prefix}settled:{name}")
    return "~" if name[0] == "~" else name, state, takeovers, returned, owner, settled, _shapes(envelopes)


def _done(client: redis.Redis, key: bytes) -> tuple[bytes, bytes]:
    acked, _, owner = client.get(key).split(b" ", 2)
    return acked, owner
