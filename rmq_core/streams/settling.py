"""Ending leases, whole or message by message: ack, nack, release. Only the lease that holds a message can settle it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from rmq_core.envelope import codec
from rmq_core.errors import LeaseLost, ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settling import Some, outcomes_of, settle
from rmq_core.messages import Lease, token_of
from rmq_core.protocol import lacking
from rmq_core.reports import Outcome, SettleReport
from rmq_core.streams.state import BACK, StreamEngine, or_lost

_LETTERS = {"s": Outcome.SETTLED, "l": Outcome.LOST}
_log = logging.getLogger("rmq")


def ack(engine: StreamEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Finish the messages of a lease, or some of them. Acknowledged entries stay in the stream until it is trimmed.

    Raises LeaseLost if `messages` is None and the lease is lost; if some messages are lost, the report lists them.
    """
    return (yield from _settle(engine, lease, "ack", messages))


def nack(
    engine: StreamEngine,
    lease: Lease,
    messages: Some | None = None,
    *,
    delay: timedelta | float | None = None,
    reason: str | None = None,
) -> Exchange[SettleReport]:
    """Nack messages: they are stale at once. The delivery counts, but a stream has no limit of deliveries.

    reason: is logged, because an entry cannot store it. Raises Unsupported for a delay, LeaseLost if `messages` is None
    and the lease is lost.
    """
    if delay is not None:
        raise lacking("streams", "delay")
    report = yield from _settle(engine, lease, "nack", messages)
    if reason is not None:
        _log.info("nacked %d messages of lease %r of queue %r: %s", report.settled, lease.id, engine.name, reason)
    return report


def release(engine: StreamEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Release messages without counting the delivery: they are stale at once.

    Raises LeaseLost if `messages` is None and the lease is lost; if some messages are lost, the report lists them.
    """
    return (yield from _settle(engine, lease, "release", messages))


def give_back_unanswered(engine: StreamEngine) -> Exchange[None]:
    """Release the messages of claims whose reply never arrived."""
    while engine.unanswered:
        token = engine.unanswered[0]
        try:
            ids = yield script("streams/held", engine.keys, group=engine.config.consumer_group, token=token)
            if ids:
                yield _call(engine, token, "release", ids, whole=False)
        except ScriptFailed as error:
            or_lost(error)
        engine.unanswered.popleft()


def _settle(engine: StreamEngine, lease: Lease, verb: str, messages: Some | None) -> Exchange[SettleReport]:
    token, ids = token_of(lease), [codec.split(envelope).id for envelope in lease.envelopes or ()]

    def send(places: list[int]) -> Exchange[list[Outcome]]:
        try:
            reply = yield _call(engine, token, verb, [ids[place] for place in places], whole=messages is None)
        except ScriptFailed as error:
            reply = or_lost(error) if messages is None else or_lost(error)[:1] * len(places)
        return outcomes_of(lease, reply, len(places), _LETTERS)

    try:
        report = yield from settle(engine.name, lease, messages, send)
    except LeaseLost:
        engine.state(Operation.LOST, lease.count, lease)
        raise
    engine.state(Operation(verb), report.settled, lease)
    return report


def _call(engine: StreamEngine, token: str, verb: str, ids: Sequence[str | bytes], *, whole: bool) -> Call:
    config = engine.config
    return script(
        "streams/settle", engine.keys, group=config.consumer_group, token=token, verb=verb,
        scope="whole" if whole else "some", stale_ms=config.claim_idle_ms, back=BACK, ids=ids,
    )  # fmt: skip
