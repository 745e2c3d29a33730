"""Claiming a message, and the two ends it can have, as steps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic, perf_counter
from typing import Any, TypeVar

from rmq_core.errors import CleanupFailedError, GatewayContractError
from rmq_core.events import EventOperation, EventOutcome
from rmq_core.message_queue.body import Body, returned
from rmq_core.message_queue.draining import recover
from rmq_core.message_queue.heartbeat import Beat
from rmq_core.message_queue.notices import warn
from rmq_core.message_queue.steps import Steps, Whole
from rmq_core.message_queue.stored import ClaimedMessage, Delivery, MessageData, delivery_of

H = TypeVar("H")

_log = logging.getLogger("rmq")
_STALE = (
    "the lease of a message was lost before it was settled: it will be, or was, delivered again; "
    "shorten the handler, raise visibility_timeout_seconds or set heartbeat_interval_seconds"
)
_PARTING_S = 5
_IDLE_S = 0.02


class NotAcknowledged(BaseException):
    """Leaves a `with` block without an end of its message."""


LEFT_ALONE = (KeyboardInterrupt, SystemExit, GeneratorExit, NotAcknowledged)
"""What ends a process rather than a message, which is delivered again."""


def claim(body: Body) -> Steps[Delivery | None]:
    """The next message, or None; the caller ends what it got with `succeed` or `fail`."""
    began = perf_counter()
    with body.gate.inside(body.gate.claiming):
        claimed = None if body.gate.draining else (yield from _wait(body, began))
        if body.gate.draining and claimed is None:
            yield from recover(body, monotonic() + _PARTING_S)
    if claimed is None:
        yield from body.tell(EventOperation.CLAIM_EMPTY, EventOutcome.SKIPPED, began=began)
        if body.gate.draining:
            yield partial(body.gate.world.pause, _IDLE_S)  # whoever loops until told otherwise must not spin
        return None
    try:
        if body.leased and not isinstance(claimed, ClaimedMessage):
            raise GatewayContractError(  # noqa: TRY301
                "gateway.wait_for_message_and_move() must return ClaimedMessage when the gateway has a visibility "
                f"timeout, not {type(claimed).__name__}"
            )
        delivery = delivery_of(claimed, strict=body.settings.strict_envelopes)
        yield from body.tell(EventOperation.CLAIM, began=began, of=delivery)
    except BaseException:
        body.keep(claimed)
        raise
    return delivery


def _wait(body: Body, began: float) -> Steps[ClaimedMessage | MessageData | None]:
    try:
        wait = partial(body.gateway.wait_for_message_and_move, body.key.pending, body.key.processing)
        claimed = returned("wait_for_message_and_move", (yield wait), ClaimedMessage, str, bytes, type(None))
    except Exception as error:  # noqa: BLE001  told, and raised again
        yield from body.teller.noted()
        yield from body.tell(EventOperation.CLAIM, EventOutcome.FAILURE, error=error, began=began)
        raise body.about(error, "claim") from error.__cause__
    yield from body.teller.noted()
    if claimed is not None and body.gate.draining and body.keep(claimed):
        return None  # drained meanwhile, so it is given back
    return claimed


def start(heartbeat: Callable[[Beat | None], H], body: Body, delivery: Delivery) -> H:
    """The heartbeat of a message; if it fails, before the handler has begun, the message is left to the next claim."""
    try:
        return heartbeat(beat(body, delivery))
    except BaseException:
        body.keep(delivery.stored)
        raise


def beat(body: Body, delivery: Delivery) -> Beat | None:
    """The heartbeat of a message, when there is to be one."""
    heartbeat = body.settings.heartbeat
    if heartbeat.interval is None:
        return None
    if delivery.token is None:
        if not body.warned:
            body.warned = True
            warn("the gateway returned no lease token, so the heartbeat cannot run; return ClaimedMessage")
        return None
    return Beat(
        float(heartbeat.interval),
        lambda handler: body.gateway.renew_message_lease(
            body.key.processing, delivery.stored, delivery.token, is_interrupted=handler
        ),
        partial(body.tell, of=delivery),
        heartbeat.on_failure,
    )


def succeed(body: Body, delivery: Delivery, began: float) -> Steps[None]:
    """The handler is done."""
    cleaning = perf_counter()
    log, logs = body.key.completed, body.settings.logs.completed != 0
    try:
        applied = yield from _settle(body, delivery, log if logs else None, body.settings.logs.completed)
    except Exception as error:
        yield from body.tell(
            EventOperation.CLEANUP_FAILED, EventOutcome.FAILURE, error=error, began=cleaning, of=delivery
        )
        failed = CleanupFailedError("the handler succeeded, but its message could not be acknowledged")
        raise body.about(failed, "ack", delivery) from error
    outcome = EventOutcome.SUCCESS if applied else EventOutcome.SKIPPED
    if logs:
        yield from body.tell(EventOperation.COMPLETED, outcome, began=began, of=delivery, destination_queue=log)
    yield from body.tell(EventOperation.ACK, outcome, began=cleaning, of=delivery)
    if not applied:
        yield from _stale(body, EventOperation.STALE_LEASE_ACK, delivery)


def fail(body: Body, delivery: Delivery, error: BaseException, began: float) -> Steps[None]:
    """The handler raised; that its message could not be put away must not hide why.

    Neither must an interruption, which goes on all the same: a program that it does not reach would not end.
    """
    try:
        yield from _put_away(body, delivery, error, began)
    except BaseException as interruption:
        _log.error("interrupted while a message was put away after its handler failed", exc_info=error)
        raise interruption from error


def _put_away(body: Body, delivery: Delivery, error: BaseException, began: float) -> Steps[None]:
    log, logs = body.key.failed, body.settings.logs.failed != 0
    destination = log if logs else None
    yield from body.tell(
        EventOperation.FAILED, EventOutcome.FAILURE, error=error, began=began, of=delivery,
        destination_queue=destination,
    )  # fmt: skip
    cleaning = perf_counter()
    try:
        applied = yield from _settle(body, delivery, destination, body.settings.logs.failed)
    except Exception as failure:  # noqa: BLE001  reported; the handler's own error goes on
        _log.error("a message could not be put away after its handler failed", exc_info=failure)
        yield from body.tell(
            EventOperation.CLEANUP_FAILED, EventOutcome.FAILURE, error=failure, began=cleaning, of=delivery
        )
        warn(f"a message could not be put away after its handler failed ({type(failure).__name__}); see the log")
        return
    outcome = EventOutcome.SUCCESS if applied else EventOutcome.SKIPPED
    yield from body.tell(EventOperation.NACK, outcome, began=cleaning, of=delivery)
    if not applied:
        yield from _stale(body, EventOperation.STALE_LEASE_NACK, delivery)


def _settle(body: Body, delivery: Delivery, log: str | None, cap: int | None) -> Steps[bool]:
    token: dict[str, Any] = {} if delivery.token is None else {"lease_token": delivery.token}
    if log is None:
        call = partial(body.gateway.remove_message, body.key.processing, delivery.stored, **token)
        return returned("remove_message", (yield Whole(call)), bool)
    move = partial(body.gateway.move_message, body.key.processing, log, delivery.stored, **token)
    applied = returned("move_message", (yield Whole(move)), bool)
    if cap is not None and (applied or not token):
        yield from _trim(body, log, cap)
    return applied


def _trim(body: Body, log: str, cap: int) -> Steps[None]:
    try:
        yield Whole(partial(body.gateway.trim_queue, log, cap))
    except Exception as error:  # noqa: BLE001  the next message trims again
        _log.warning("%s could not be trimmed", log, exc_info=error)
        yield from body.tell(EventOperation.TRIM_FAILED, EventOutcome.FAILURE, error=error, destination_queue=log)
        warn(f"{log} could not be trimmed ({type(error).__name__}); it is longer than configured")


def _stale(body: Body, operation: EventOperation, delivery: Delivery) -> Steps[None]:
    if delivery.token is not None:
        _log.warning("%s (queue %r)", _STALE, body.key.name)
        yield from body.tell(operation, EventOutcome.SKIPPED, of=delivery)
        warn(_STALE)
