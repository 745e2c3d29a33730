"""The methods of a queue besides processing: publish, drain, and the methods for operators.

A foreign gateway need not have the methods for operators; GatewayContractError then names the one that it lacks.
"""

from __future__ import annotations

import logging
from math import inf
from time import monotonic, perf_counter
from typing import Any, NamedTuple

from rmq_core.errors import ConfigurationError, QueueDrainedError
from rmq_core.events import EventOutcome
from rmq_core.redis_message_queue import config
from rmq_core.redis_message_queue.config import EventOperation, digest_of_text
from rmq_core.redis_message_queue.state import Inside, QueueState
from rmq_core.redis_message_queue.stored import MessageData, Received

PURGEABLE = ("pending", "completed", "failed", "dead_letter")
PARTS = ("pending", "processing", "completed", "failed", "dead_letter")
_LOOK_S = 0.01
_log = logging.getLogger("rmq")


class QueueSizes(NamedTuple):
    """How many messages each part of a queue holds; None for a part that is switched off."""

    pending: int
    processing: int
    completed: int | None
    failed: int | None
    dead_letter: int | None


async def publish(body: QueueState, message: str | dict[str, Any]) -> bool:
    """Add a message: text, or a dict that is delivered as JSON. Return False for a duplicate.

    Raises TypeError for anything else and for keys that are not str, ValueError for NaN and lone surrogates,
    QueueBackpressureError when there is no room, QueueDrainedError after `drain`.
    """
    began = perf_counter()
    with Inside(body, body.publishing):
        try:
            fresh = await _offer(body, message)
        except Exception as error:  # reported and raised again
            await body.emit(EventOperation.PUBLISH, EventOutcome.FAILURE, error=error, began=began)
            raise body.about(error, "publish") from error.__cause__
        if fresh:
            await body.emit(EventOperation.PUBLISH, began=began)
        else:
            await body.emit(EventOperation.PUBLISH_DEDUP_HIT, EventOutcome.SKIPPED, began=began)
        return fresh


async def _offer(body: QueueState, message: object) -> bool:
    if body.draining:
        raise QueueDrainedError("queue is drained")
    text = body.payload.serialize(message)
    key = await _key_of(body, message, text)
    if key is None:
        await body.ask("add_message", type(None), body.key.pending, text)
        return True
    fresh: bool = await body.ask("publish_message", bool, body.key.pending, text, body.key.deduplication(key))
    return fresh


async def _key_of(body: QueueState, message: object, text: str) -> str | None:
    rule = body.deduplication
    if not rule.enabled:
        return None
    key: Any = text
    if rule.key_of is not None and rule.custom:
        key = await body.call("get_deduplication_key", rule.key_of, message)
    elif rule.key_of is not None:
        key = digest_of_text(text)
    if not isinstance(key, str):
        raise TypeError(f"'get_deduplication_key' must return a str, not {type(key).__name__}")
    if not key:
        raise ConfigurationError("the deduplication key is empty: all messages with it would count as duplicates")
    return key


async def drain(body: QueueState, timeout: float | None = None) -> bool:
    """Take no new work: `publish` raises, `process_message` yields None. Running handlers are not interrupted.

    Waits at most `timeout` seconds for publishes in progress and releases claims whose reply may have been lost.
    Returns False if some are left; call it again then. With a timeout of 0 it neither waits nor releases claims. Other
    objects of this queue are not affected.
    """
    if timeout is not None:
        config.number("timeout", timeout)
    body.draining = True
    until = inf if timeout is None else monotonic() + timeout
    while body.others(body.publishing) or (timeout != 0 and body.others(body.claiming)):
        if monotonic() >= until:
            return False
        await body.io_mode.pause(min(_LOOK_S, until - monotonic()))
    body.drained = True
    return await recover(body, until, once=timeout == 0)


async def recover(body: QueueState, until: float, *, once: bool = False) -> bool:
    """Release claims whose reply never arrived. Return True when none is left."""
    if body.channel is None or not body.channel.engine.unanswered:
        return True
    if once:
        return False
    recovered = False
    try:
        left = None if until == inf else max(0.0, until - monotonic())
        recovered = await body.ask("recover_claims", bool, body.key.processing, left, finish=True)
    except Exception as error:  # drain can be called again
        _log.warning("claims without a reply could not be released: %s", error)
    await body.tell_noted()
    return recovered


async def stats(body: QueueState) -> QueueSizes:
    """Return how many messages each part of the queue holds."""
    logs = body.logs
    absent = {name for name, cap in (("completed", logs.completed), ("failed", logs.failed)) if cap == 0}
    if body.gateway.dead_letter_queue is None:
        absent.add("dead_letter")
    sizes: dict[str, Any] = dict.fromkeys(PARTS)
    for part in (part for part in PARTS if part not in absent):
        sizes[part] = await body.ask("queue_length", int, getattr(body.key, part))
    return QueueSizes(**sizes)


async def peek(body: QueueState, count: int = 1, *, source: str = "pending") -> list[MessageData]:
    """Return messages of `pending`, `processing`, `completed`, `failed` or `dead_letter` without moving them."""
    config.whole("count", count)
    found = await body.ask("peek_messages", list, _part(body, source, "source", PARTS), count)
    return [Received.of(message, strict=False).message for message in found]


async def redrive_dead_letters(body: QueueState, max_messages: int | None = None) -> int:
    """Move the oldest dead letters back, to be delivered as often as new messages. Return how many."""
    config.whole_or_none("max_messages", max_messages)
    source = _part(body, "dead_letter", "source", PARTS)
    moved: int = await body.ask("redrive_messages", int, source, body.key.pending, max_messages)
    return moved


async def purge(body: QueueState, *, target: str) -> int:
    """Delete all messages of `pending`, `completed`, `failed` or `dead_letter`. Return how many."""
    if target == "processing":
        raise ConfigurationError("'target': messages being processed cannot be purged; they complete or expire")
    removed: int = await body.ask("purge_queue", int, _part(body, target, "target", PURGEABLE))
    return removed


def _part(body: QueueState, name: str, parameter: str, allowed: tuple[str, ...]) -> str:
    if name not in allowed:
        raise ConfigurationError(f"'{parameter}' must be one of {', '.join(allowed)}, not {name!r}")
    if name == "dead_letter" and body.gateway.dead_letter_queue is None:
        raise ConfigurationError("this queue has no dead letters; set 'max_delivery_count'")
    key: str = getattr(body.key, name)
    return key
