"""Pushing ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from rmq_core.discipline.rotation.config import DISCIPLINE
from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.entries import id_bytes, id_text, new_entry
from rmq_core.envelope.chunks import chunks, each
from rmq_core.envelope.codec import Payload
from rmq_core.errors import PayloadError, RedisMessageQueueError, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.protocol import lacking
from rmq_core.queue.registry import register
from rmq_core.reports import Published, PublishReport


def push(engine: RotationEngine, message_id: str | bytes) -> Exchange[None]:
    """Add an id. Raises PayloadError for one that is empty, too long or no text."""
    data = id_bytes(message_id, engine.config.max_id_bytes)
    yield from ready(engine)
    yield from _push(engine, [new_entry(data)])


def publish(
    engine: RotationEngine,
    payload: Payload,
    *,
    dedup_key: str | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Exchange[Published]:
    """Add an id, as `push` does. Raises Unsupported for the rest: a list of ids has no room for it."""
    _check(dedup_key, delay, headers)
    data = _id(engine, payload)
    yield from ready(engine)
    yield from _push(engine, [new_entry(data)])
    return Published(id_text(data), accepted=True)


def publish_many(
    engine: RotationEngine,
    payloads: Iterable[Payload],
    *,
    dedup_key: Callable[[Any], str] | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Exchange[PublishReport]:
    """Add many ids, in order, in chunks of up to 1,000. Takes any iterable, of any length.

    Stops at the first chunk that is refused and raises; `report` of the error holds what was accepted before it.
    """
    _check(dedup_key, delay, headers)
    ids = list[str]()
    yield from ready(engine)
    found = each(lambda payload: _id(engine, payload), payloads)
    try:
        for chunk in chunks(found, len):
            yield from _push(engine, [new_entry(data) for data in chunk])
            ids += map(id_text, chunk)
    except RedisMessageQueueError as error:
        error.report = PublishReport(len(ids), 0, 0, tuple(ids))
        raise
    return PublishReport(len(ids), 0, 0, tuple(ids))


def ready(engine: RotationEngine) -> Exchange[None]:
    """Make sure that tools can find this queue."""
    if not engine.registered:
        engine.registered = yield from register(engine.name, DISCIPLINE)


def _id(engine: RotationEngine, payload: Payload) -> bytes:
    if not isinstance(payload, str):
        raise PayloadError(f"payload must be a str, which is the id, not {type(payload).__name__}")
    return id_bytes(payload, engine.config.max_id_bytes)


def _check(dedup_key: object, delay: object, headers: object) -> None:
    for capability, asked in (("dedup", dedup_key), ("delay", delay), ("headers", headers)):
        if asked is not None:
            raise lacking(DISCIPLINE, capability)


def _push(engine: RotationEngine, entries: list[bytes]) -> Exchange[None]:
    reply = yield script("rotation/push", engine.keys, bell=engine.keys.bell, entries=entries)
    if not reply.startswith(b"pushed"):
        raise ScriptFailed(f"push got {reply.decode()!r}")
