"""Claiming: a lease is a consumer of the group under a unique name. New messages come before stale ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from rmq_core.envelope.codec import nonce
from rmq_core.errors import QueueUnavailable, RedisMessageQueueError, ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Call, Exchange, Pipeline, Wait
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.publishing import refuse_groups
from rmq_core.kernel.settling import lost, open_places
from rmq_core.messages import Lease, token_of
from rmq_core.policy import milliseconds, moment, whole
from rmq_core.protocol import lacking
from rmq_core.streams.publishing import begin
from rmq_core.streams.settling import give_back_unanswered
from rmq_core.streams.state import BACK, StreamEngine, envelope, explained, lacks_group, or_lost

_MOST = 4000
_LONGEST_BLOCK_MS = 1000


def claim(
    engine: StreamEngine,
    *,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
    lease_id: str | None = None,
    owner: str | None = None,
    groups: Collection[str] | None = None,
) -> Exchange[Lease | None]:
    """Take the oldest new messages under a lease, or stale ones when none is new. Return None when `wait` is over.

    lease, wait: seconds or timedelta. A lease lasts at most `claim_idle_ms` of the config, because any reader of the
    group may take messages that are idle for longer. Raises Unsupported for a longer lease, for a `lease_id`, and for
    more than 4,000 messages, QueueError if the group is gone.
    """
    refuse_groups("streams", groups)
    whole("max_messages", max_messages, minimum=1)
    if lease_id is not None:
        raise lacking("streams", "takeover", "leases under an id that the caller chose")
    if max_messages > _MOST:
        raise lacking("streams", "large_leases", "leases of more than 4,000 messages")
    lease_ms, wait_ms = _lease_ms(engine, "lease", lease), milliseconds("wait", wait)
    who = "" if not owner else check_name("owner", owner)
    call = _call(engine, who, max_messages, lease_ms)
    yield from begin(engine)
    yield from give_back_unanswered(engine)
    try:
        return (yield from _wait(engine, call, who, wait_ms))
    except BaseException as error:
        if not isinstance(error, RedisMessageQueueError) or isinstance(error, QueueUnavailable):
            engine.unanswered.append(_holder(call))
        if isinstance(error, ScriptFailed) and lacks_group(error):
            raise explained(engine, error) from error
        raise


def extend(engine: StreamEngine, lease: Lease, by: timedelta | float | None = None) -> Exchange[datetime | None]:
    """Move the deadline to `by` (seconds or timedelta, claim_idle_ms when None) from now; never to an earlier time.

    Raises LeaseLost, also when another consumer has taken some messages of the lease.
    """
    try:
        reply = yield _extension(engine, lease, by)
    except ScriptFailed as error:
        reply = or_lost(error)
    if reply == b"lost":
        engine.state(Operation.LOST, lease.count, lease)
        raise lost(lease)
    return moment(reply)


def extend_all(engine: StreamEngine, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
    """Extend many leases in one write; return False for each that is lost."""
    replies = yield Pipeline(tuple(_extension(engine, lease, by) for lease, by in leases))
    return [(or_lost(reply) if isinstance(reply, Exception) else reply) != b"lost" for reply in replies]


def _wait(engine: StreamEngine, call: Call, owner: str, wait_ms: int) -> Exchange[Lease | None]:
    """Claim repeatedly. Block in Redis in between for at most 1 s: a message that turns stale does not end a block."""
    left, block = wait_ms, 0
    while True:
        reply = yield Wait(b"", block, call, by=_blocking(engine, call, block)) if block else call
        verdict = reply[0].decode()
        if verdict in {"claimed", "reclaimed"}:
            return _granted(engine, call, owner, reply)
        if verdict != "empty":
            raise ScriptFailed(f"claim got {verdict!r}")
        left -= block
        if left <= 0:
            return None
        due = int(reply[1])
        block = min(left, _LONGEST_BLOCK_MS, due if due > 0 else left)


def _granted(engine: StreamEngine, call: Call, owner: str, reply: Any) -> Lease:
    verdict, deadline, *entries = reply
    envelopes = tuple(envelope(entry[0].decode(), entry[2], int(entry[1]) - 1) for entry in entries)
    holder = _holder(call)
    lease_id = holder.rpartition(".")[0]
    lease = Lease(engine.name, lease_id, owner, len(entries), int(deadline), holder, envelopes=envelopes)
    stale = verdict == b"reclaimed"
    engine.state(Operation.RECLAIM if stale else Operation.CLAIM, lease.count, lease)
    return lease


def _call(engine: StreamEngine, owner: str, max_messages: int, lease_ms: int) -> Call:
    config = engine.config
    holder = f"{BACK}{owner or config.consumer_name}/{nonce()}.{nonce()}"
    return script(
        "streams/claim", engine.keys, group=config.consumer_group, token=holder, max_messages=max_messages,
        stale_ms=config.claim_idle_ms, lease_ms=lease_ms,
    )  # fmt: skip


def _blocking(engine: StreamEngine, call: Call, block_ms: int) -> tuple[str | int, ...]:
    """Return the command that blocks until one message comes; the call sent behind it takes the others."""
    stream, group = engine.config.stream_key, engine.config.consumer_group
    return ("XREADGROUP", "GROUP", group, _holder(call), "COUNT", 1, "BLOCK", block_ms, "STREAMS", stream, ">")


def _holder(call: Call) -> str:
    """Return the token of the lease, its id and a secret. It is also the name of its consumer in the group."""
    return str(call.given["token"])


def _extension(engine: StreamEngine, lease: Lease, by: timedelta | float | None) -> Call:
    config, by_ms, held = engine.config, _lease_ms(engine, "by", by), len(open_places(lease))
    return script(
        "streams/extend", engine.keys, group=config.consumer_group, token=token_of(lease),
        stale_ms=config.claim_idle_ms, lease_ms=by_ms, least=held,
    )  # fmt: skip


def _lease_ms(engine: StreamEngine, parameter: str, value: timedelta | float | None) -> int:
    most = engine.config.claim_idle_ms
    asked = most if value is None else milliseconds(parameter, value, minimum=0.001)
    if asked > most:
        raise lacking("streams", "large_leases", f"{parameter} of more than claim_idle_ms={most}")
    return asked
