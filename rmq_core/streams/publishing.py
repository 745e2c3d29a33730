"""Publishing as in every discipline: a call is resent when its reply is lost, and its messages are stored once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rmq_core.envelope.codec import Publishable, chunks, each
from rmq_core.errors import ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.publishing import publish_chunks, refuse, refuse_groups
from rmq_core.kernel.registry import ready
from rmq_core.reports import Published, PublishReport
from rmq_core.streams.native import start
from rmq_core.streams.state import StreamEngine, encode


def publish(
    engine: StreamEngine,
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
    """Add a message, a dict. Raises Unsupported for a deduplication key, delay or headers: an entry has none."""
    refuse("streams", dedup=dedup_key, delay=delay, headers=headers)
    refuse_groups("streams", group, priority, publication, expires)
    data = encode(payload)
    yield from begin(engine)
    ids = yield from _add(engine, [data])
    return Published(ids[0], accepted=True)


def publish_many(
    engine: StreamEngine,
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
    """Add messages, dicts, in order, in chunks of up to 1,000 messages and 4 MiB.

    Raises at the first chunk that is refused; `report` of the error lists the messages accepted before it.
    """
    refuse("streams", dedup=dedup_key, delay=delay, headers=headers)
    refuse_groups("streams", group, priority, publication, expires)
    yield from begin(engine)
    return (yield from publish_chunks(chunks(each(encode, payloads), len), partial(_add, engine)))


def begin(engine: StreamEngine) -> Exchange[None]:
    """Before the first call of a queue object, create its group and register its name for tools."""
    yield from start(engine)
    yield from ready(engine, "streams")


def _add(engine: StreamEngine, chunk: Sequence[bytes]) -> Exchange[list[str]]:
    reply = yield script("streams/publish", engine.keys, payloads=chunk)
    verdict, *ids = reply.decode().split(" ")
    if verdict != "added":
        raise ScriptFailed(f"publish got {verdict!r}")
    engine.state(Operation.PUBLISH, len(ids), message_id=ids[0] if len(ids) == 1 else None)
    return list(ids)
