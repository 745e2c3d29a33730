"""What operators ask of a queue, as steps: how much there is, what it looks like, back with it, away with it.

A foreign gateway need not be able to do any of this; then GatewayContractError names the method that it lacks.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from rmq_core.errors import ConfigurationError, GatewayContractError
from rmq_core.message_queue import checks
from rmq_core.message_queue.body import Body, returned
from rmq_core.message_queue.steps import Steps
from rmq_core.message_queue.stored import MessageData, delivery_of

PARTS = ("pending", "processing", "completed", "failed", "dead_letter")
PURGEABLE = ("pending", "completed", "failed", "dead_letter")


class QueueStats(NamedTuple):
    """How many messages each part of a queue holds; None for a part that is switched off."""

    pending: int
    processing: int
    completed: int | None
    failed: int | None
    dead_letter: int | None


def stats(body: Body) -> Steps[QueueStats]:
    """The size of each part."""
    logs, absent = body.settings.logs, set()
    if logs.completed == 0:
        absent.add("completed")
    if logs.failed == 0:
        absent.add("failed")
    if body.gateway.dead_letter_queue is None:
        absent.add("dead_letter")
    sizes: dict[str, Any] = dict.fromkeys(PARTS)
    for part in PARTS:
        if part not in absent:
            sizes[part] = yield from _operate(body, "queue_length", getattr(body.key, part), kind=int)
    return QueueStats(**sizes)


def peek(body: Body, count: int, source: str) -> Steps[list[MessageData]]:
    """Some messages of a part, which stay where they are."""
    checks.whole("count", count)
    key = _part(body, source, "source", PARTS)
    found = yield from _operate(body, "peek_messages", key, count, kind=list)
    return [delivery_of(message, strict=False).message for message in found]


def redrive(body: Body, max_messages: int | None) -> Steps[int]:
    """Dead letters back to what waits."""
    checks.whole_or_none("max_messages", max_messages)
    source = _part(body, "dead_letter", "source", PARTS)
    moved: int = yield from _operate(body, "redrive_messages", source, body.key.pending, max_messages, kind=int)
    return moved


def purge(body: Body, target: str) -> Steps[int]:
    """Away with a part."""
    if target == "processing":
        raise ConfigurationError("'target': what is being processed cannot be purged; it completes or expires")
    removed: int = yield from _operate(body, "purge_queue", _part(body, target, "target", PURGEABLE), kind=int)
    return removed


def _operate(body: Body, verb: str, *args: object, kind: type) -> Steps[Any]:
    method = getattr(body.gateway, verb, None)
    if not callable(method):
        raise GatewayContractError(f"{type(body.gateway).__name__} has no {verb}(), which RedisGateway has")
    return returned(verb, (yield partial(method, *args)), kind)


def _part(body: Body, name: str, parameter: str, allowed: tuple[str, ...]) -> str:
    if name not in allowed:
        raise ConfigurationError(f"'{parameter}' must be one of {', '.join(allowed)}, not {name!r}")
    if name == "dead_letter" and body.gateway.dead_letter_queue is None:
        raise ConfigurationError("this queue has no dead letters; set 'max_delivery_count'")
    key: str = getattr(body.key, name)
    return key
