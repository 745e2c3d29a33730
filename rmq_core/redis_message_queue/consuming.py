"""Claims a message and settles it after success or failure of its handler."""

from __future__ import annotations

import logging
from time import monotonic, perf_counter
from typing import Any

from rmq_core.errors import CleanupFailedError, GatewayContractError
from rmq_core.events import EventOutcome
from rmq_core.redis_message_queue.config import EventOperation
from rmq_core.redis_message_queue.publishing import recover
from rmq_core.redis_message_queue.state import Inside, QueueState, warn
from rmq_core.redis_message_queue.stored import ClaimedMessage, MessageData, Received

_log = logging.getLogger("rmq")
_STALE = (
    "the lease of a message was lost before it was settled: it will be, or was, delivered again; "
    "shorten the handler, raise visibility_timeout_seconds or set heartbeat_interval_seconds"
)
_PARTING_S = 5
_IDLE_S = 0.02
_CLAIMED = (ClaimedMessage, str, bytes, type(None))


class NotAcknowledged(BaseException):
    """Raised to leave a `with` block without settling its message."""


LEFT_ALONE = (KeyboardInterrupt, SystemExit, GeneratorExit, NotAcknowledged)
"""Exceptions that leave the message unsettled, so that it is redelivered."""


async def claim(body: QueueState) -> Received | None:
    """Return the next message, or None. The caller must settle a message with `succeed` or `fail`."""
    began = perf_counter()
    with Inside(body, body.claiming):
        claimed = None if body.draining else await _wait(body, began)
        if body.draining and claimed is None:
            await recover(body, monotonic() + _PARTING_S)
    if claimed is None:
        await body.emit(EventOperation.CLAIM_EMPTY, EventOutcome.SKIPPED, began=began)
        if body.draining:
            await body.io_mode.pause(_IDLE_S)  # keeps a caller that claims in a loop from spinning
        return None
    try:
        if body.leased and not isinstance(claimed, ClaimedMessage):
            raise GatewayContractError(
                "gateway.wait_for_message_and_move() must return ClaimedMessage when the gateway has a visibility "
                f"timeout, not {type(claimed).__name__}"
            )
        received = Received.of(claimed, strict=body.strict_envelopes)
        await body.emit(EventOperation.CLAIM, began=began, of=received)
    except BaseException:
        body.keep(claimed)
        raise
    return received


async def _wait(body: QueueState, began: float) -> ClaimedMessage | MessageData | None:
    try:
        claimed: ClaimedMessage | MessageData | None = await body.ask(
            "wait_for_message_and_move", _CLAIMED, body.key.pending, body.key.processing
        )
    except Exception as error:  # reported and raised again
        await body.tell_noted()
        await body.emit(EventOperation.CLAIM, EventOutcome.FAILURE, error=error, began=began)
        raise body.about(error, "claim") from error.__cause__
    await body.tell_noted()
    if claimed is not None and body.draining and body.keep(claimed):
        return None  # the queue was drained meanwhile, so the claim is released
    return claimed


async def succeed(body: QueueState, received: Received, began: float) -> None:
    """Acknowledge a message after its handler succeeded."""
    cleaning = perf_counter()
    log, logs = body.key.completed, body.logs.completed != 0
    try:
        applied = await _settle(body, received, log if logs else None, body.logs.completed)
    except Exception as error:
        await body.emit(EventOperation.CLEANUP_FAILED, EventOutcome.FAILURE, error=error, began=cleaning, of=received)
        failed = CleanupFailedError("the handler succeeded, but its message could not be acknowledged")
        raise body.about(failed, "ack", received) from error
    if logs:
        outcome = EventOutcome.SUCCESS if applied else EventOutcome.SKIPPED
        await body.emit(EventOperation.COMPLETED, outcome, began=began, of=received, destination_queue=log)
    await _tell_end(body, EventOperation.ACK, received, cleaning, applied=applied)


async def fail(body: QueueState, received: Received, error: BaseException, began: float) -> None:
    """Settle a message after its handler raised.

    An error while settling is only logged, and the handler's error propagates. An interruption while settling is raised
    with the handler's error as its cause, because the program has to end.
    """
    try:
        await _put_away(body, received, error, began)
    except BaseException as interruption:
        _log.error("interrupted while a message was settled after its handler failed", exc_info=error)
        raise interruption from error


async def _put_away(body: QueueState, received: Received, error: BaseException, began: float) -> None:
    log, failed = body.key.failed if body.logs.failed != 0 else None, EventOutcome.FAILURE
    await body.emit(EventOperation.FAILED, failed, error=error, began=began, of=received, destination_queue=log)
    cleaning = perf_counter()
    try:
        applied = await _settle(body, received, log, body.logs.failed)
    except Exception as failure:  # reported; the handler's own error propagates
        text = "a message could not be settled after its handler failed"
        await body.complain(text, EventOperation.CLEANUP_FAILED, error=failure, began=cleaning, of=received)
        return
    await _tell_end(body, EventOperation.NACK, received, cleaning, applied=applied)


async def _settle(body: QueueState, received: Received, log: str | None, cap: int | None) -> bool:
    token: dict[str, Any] = {} if received.token is None else {"lease_token": received.token}
    source, stored = body.key.processing, received.stored
    applied: bool
    if log is None:
        applied = await body.ask("remove_message", bool, source, stored, finish=True, **token)
        return applied
    applied = await body.ask("move_message", bool, source, log, stored, finish=True, **token)
    if cap is not None and (applied or not token):
        await _trim(body, log, cap)
    return applied


async def _trim(body: QueueState, log: str, cap: int) -> None:
    try:
        await body.ask("trim_queue", object, log, cap, finish=True)
    except Exception as error:  # the next message trims again
        _log.warning("%s could not be trimmed", log, exc_info=error)
        await body.emit(EventOperation.TRIM_FAILED, EventOutcome.FAILURE, error=error, destination_queue=log)
        warn(f"{log} could not be trimmed ({type(error).__name__}); it is longer than configured")


async def _tell_end(
    body: QueueState, operation: EventOperation, received: Received, began: float, *, applied: bool
) -> None:
    outcome = EventOutcome.SUCCESS if applied else EventOutcome.SKIPPED
    await body.emit(operation, outcome, began=began, of=received)
    if not applied and received.token is not None:
        await body.complain(_STALE, EventOperation(f"stale_lease_{operation}"), outcome=outcome, of=received)
