"""Push ids into the list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rmq_core.envelope.codec import Publishable, chunks, each
from rmq_core.errors import PayloadError, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.publishing import publish_chunks, refuse, refuse_groups
from rmq_core.kernel.registry import ready
from rmq_core.reports import Published, PublishReport
from rmq_core.rotation.state import DISCIPLINE, RotationEngine, id_bytes, id_text, new_entry


def push(engine: RotationEngine, message_id: str | bytes) -> Exchange[None]:
    """Add an id. Raises PayloadError for one that is empty, too long or no text."""
    data = id_bytes(message_id, engine.config)
    yield from ready(engine, DISCIPLINE)
    yield from _push(engine, [data])


def publish(
    engine: RotationEngine,
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
    """Add an id, as `push` does. Raises Unsupported for the other arguments, which a list of ids cannot store."""
    refuse(DISCIPLINE, dedup=dedup_key, delay=delay, headers=headers)
    refuse_groups(DISCIPLINE, group, priority, publication, expires)
    data = _id(engine, payload)
    yield from ready(engine, DISCIPLINE)
    (found,) = yield from _push(engine, [data])
    return Published(found, accepted=True)


def publish_many(
    engine: RotationEngine,
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
    """Add many ids, in order, in chunks of up to 1,000. Takes any iterable, of any length.

    Stops at the first refused chunk and raises; `report` of the error says what was accepted before.
    """
    refuse(DISCIPLINE, dedup=dedup_key, delay=delay, headers=headers)
    refuse_groups(DISCIPLINE, group, priority, publication, expires)
    yield from ready(engine, DISCIPLINE)
    found = each(lambda payload: _id(engine, payload), payloads)
    return (yield from publish_chunks(chunks(found, len), partial(_push, engine)))


def _id(engine: RotationEngine, payload: Publishable) -> bytes:
    if not isinstance(payload, str):
        raise PayloadError(f"payload must be a str, which is the id, not {type(payload).__name__}")
    return id_bytes(payload, engine.config)


def _push(engine: RotationEngine, ids: Sequence[bytes]) -> Exchange[list[str]]:
    reply = yield script("rotation/push", engine.keys, entries=[*map(new_entry, ids)])
    if not reply.startswith(b"pushed"):
        raise ScriptFailed(f"push got {reply.decode()!r}")
    return [*map(id_text, ids)]
