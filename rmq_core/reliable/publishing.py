"""Publish messages: push them in chunks at the left end; each chunk is stored whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rmq_core.envelope import codec
from rmq_core.envelope.codec import Publishable, chunks, each, new_id
from rmq_core.envelope.payloads import encode_headers, encode_payload
from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.publishing import publish_chunks, refuse, refuse_groups
from rmq_core.kernel.registry import ready
from rmq_core.reliable.state import DISCIPLINE, ReliableEngine
from rmq_core.reports import Published, PublishReport


def publish(
    engine: ReliableEngine,
    payload: Publishable,
    *,
    dedup_key: str | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
    group: str | None = None,
    priority: int | None = None,
    publication: str | None = None,
    expires: timedelta | float | datetime | None = None,
) -> Exchange[Published]:
    """Add a message. Raises PayloadError when it cannot be stored, Unsupported for `dedup_key` and `delay`."""
    refuse(DISCIPLINE, dedup=dedup_key, delay=delay)
    refuse_groups(DISCIPLINE, group, priority, publication, expires)
    entry = _entry(engine, payload, encode_headers(headers))
    yield from ready(engine, DISCIPLINE)
    (message_id,) = yield from _push(engine, [entry])
    return Published(message_id, accepted=True)


def publish_many(
    engine: ReliableEngine,
    payloads: Iterable[Publishable],
    *,
    dedup_key: Callable[[Any], str] | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
    group: str | None = None,
    priority: int | None = None,
    publication: str | None = None,
    expires: timedelta | float | datetime | None = None,
) -> Exchange[PublishReport]:
    """Add many messages, in order, in chunks of up to 1,000 messages and 4 MiB. Takes any iterable, of any length.

    Stops at the first refused chunk and raises; `report` of the error states what was accepted before.
    """
    refuse(DISCIPLINE, dedup=dedup_key, delay=delay)
    refuse_groups(DISCIPLINE, group, priority, publication, expires)
    extra = encode_headers(headers)
    yield from ready(engine, DISCIPLINE)
    entries = each(lambda payload: _entry(engine, payload, extra), payloads)
    return (yield from publish_chunks(chunks(entries, lambda entry: len(entry[1])), partial(_push, engine)))


def _entry(engine: ReliableEngine, payload: Publishable, headers: bytes) -> tuple[str, bytes]:
    config, message_id = engine.config, new_id()
    kind, data = encode_payload(payload, config)
    return message_id, codec.body(message_id, kind, data, headers)


def _push(engine: ReliableEngine, entries: Sequence[tuple[str, bytes]]) -> Exchange[list[str]]:
    ids, bodies = zip(*entries, strict=True)
    reply = yield script("reliable/publish", engine.keys, messages=bodies)
    if not reply.startswith(b"accepted"):
        raise ScriptFailed(f"publish got {reply.decode()!r}")
    return list(ids)
