"""Publishing: messages go in at the left, in chunks, each of them whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from rmq_core.discipline.reliable.config import DISCIPLINE
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.envelope import codec
from rmq_core.envelope.chunks import chunks, each
from rmq_core.envelope.codec import Payload
from rmq_core.envelope.ids import new_id
from rmq_core.envelope.payloads import encode_headers, encode_payload
from rmq_core.errors import RedisMessageQueueError, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.protocol import lacking
from rmq_core.queue.registry import register
from rmq_core.reports import Published, PublishReport


def publish(
    engine: ReliableEngine,
    payload: Payload,
    *,
    dedup_key: str | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Exchange[Published]:
    """Add a message. Raises PayloadError for what cannot be stored, Unsupported for `dedup_key` and `delay`."""
    _check(dedup_key, delay)
    message_id, body = _entry(engine, payload, encode_headers(headers))
    yield from ready(engine)
    yield from _push(engine, [body])
    return Published(message_id, accepted=True)


def publish_many(
    engine: ReliableEngine,
    payloads: Iterable[Payload],
    *,
    dedup_key: Callable[[Any], str] | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Exchange[PublishReport]:
    """Add many messages, in order, in chunks of up to 1,000 messages and 4 MiB. Takes any iterable, of any length.

    Stops at the first chunk that is refused and raises; `report` of the error holds what was accepted before it.
    """
    _check(dedup_key, delay)
    extra, ids = encode_headers(headers), list[str]()
    yield from ready(engine)
    entries = each(lambda payload: _entry(engine, payload, extra), payloads)
    try:
        for chunk in chunks(entries, lambda entry: len(entry[1])):
            yield from _push(engine, [body for _, body in chunk])
            ids += [message_id for message_id, _ in chunk]
    except RedisMessageQueueError as error:
        error.report = PublishReport(len(ids), 0, 0, tuple(ids))
        raise
    return PublishReport(len(ids), 0, 0, tuple(ids))


def ready(engine: ReliableEngine) -> Exchange[None]:
    """Make sure that tools can find this queue."""
    if not engine.registered:
        engine.registered = yield from register(engine.name, DISCIPLINE)


def _check(dedup_key: object, delay: object) -> None:
    if dedup_key is not None:
        raise lacking(DISCIPLINE, "dedup")
    if delay is not None:
        raise lacking(DISCIPLINE, "delay")


def _entry(engine: ReliableEngine, payload: Payload, headers: bytes) -> tuple[str, bytes]:
    config, message_id = engine.config, new_id()
    kind, data = encode_payload(payload, config.max_payload_bytes, config.max_payload_depth)
    return message_id, codec.body(message_id, kind, data, headers)


def _push(engine: ReliableEngine, bodies: list[bytes]) -> Exchange[None]:
    reply = yield script("reliable/publish", engine.keys, messages=bodies)
    if not reply.startswith(b"accepted"):
        raise ScriptFailed(f"publish got {reply.decode()!r}")
