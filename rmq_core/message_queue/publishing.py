"""Publishing, as steps."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

from rmq_core.errors import ConfigurationError, QueueDrainedError
from rmq_core.events import EventOperation, EventOutcome
from rmq_core.message_queue import checks
from rmq_core.message_queue.body import Body, returned
from rmq_core.message_queue.config import digest_of_text
from rmq_core.message_queue.steps import Steps


def publish(body: Body, message: object) -> Steps[bool]:
    """Add a message; False for a duplicate."""
    began = perf_counter()
    with body.gate.inside(body.gate.publishing):
        try:
            fresh = yield from _offer(body, message)
        except Exception as error:  # noqa: BLE001  told, and raised again
            yield from body.tell(EventOperation.PUBLISH, EventOutcome.FAILURE, error=error, began=began)
            raise body.about(error, "publish") from error.__cause__
        if fresh:
            yield from body.tell(EventOperation.PUBLISH, began=began)
        else:
            yield from body.tell(EventOperation.PUBLISH_DEDUP_HIT, EventOutcome.SKIPPED, began=began)
        return fresh


def _offer(body: Body, message: object) -> Steps[bool]:
    if body.gate.draining:
        raise QueueDrainedError("queue is drained")
    text = body.settings.payload.serialize(message)
    key = yield from _key_of(body, message, text)
    if key is None:
        add = partial(body.gateway.add_message, body.key.pending, text)
        returned("add_message", (yield add), type(None))
        return True
    add = partial(body.gateway.publish_message, body.key.pending, text, body.key.deduplication(key))
    return returned("publish_message", (yield add), bool)


def _key_of(body: Body, message: object, text: str) -> Steps[str | None]:
    rule = body.settings.deduplication
    if not rule.enabled:
        return None
    key: Any = text
    if rule.key_of is not None and rule.custom:
        key = checks.plain("get_deduplication_key", (yield partial(rule.key_of, message)))
    elif rule.key_of is not None:
        key = digest_of_text(text)
    if not isinstance(key, str):
        raise TypeError(f"'get_deduplication_key' must return a str, not {type(key).__name__}")
    if not key:
        raise ConfigurationError("the deduplication key is empty: all messages with it would count as duplicates")
    return key
