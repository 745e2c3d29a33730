"""A sixth discipline, as small as one can be: lists of workers, as `reliable` keeps them, under another name.

It tests everything that lists disciplines: it has this folder and one record, RECORD, and nothing else.
"""

from __future__ import annotations

from typing import Any

from rmq_core.envelope.codec import Payload
from rmq_core.exchange import Exchange
from rmq_core.kernel.registry import register
from rmq_core.protocol import Discipline
from rmq_core.reliable import publishing
from rmq_core.reliable.state import ReliableEngine
from rmq_core.reports import Published, PublishReport

RECORD = Discipline(
    "toy", "ToyQueue", ("BLMOVE", "ZRANGE"), ("reliable/", "kernel/list_"), "reliable:", package=__name__
)


def publish(engine: ReliableEngine, payload: Payload, **options: Any) -> Exchange[Published]:
    """Add a message."""
    yield from _registered(engine)
    return (yield from publishing.publish(engine, payload, **options))


def publish_many(engine: ReliableEngine, payloads: Any, **options: Any) -> Exchange[PublishReport]:
    """Add messages."""
    yield from _registered(engine)
    return (yield from publishing.publish_many(engine, payloads, **options))


def _registered(engine: ReliableEngine) -> Exchange[None]:
    if not engine.registered:
        engine.registered = yield from register(engine.name, RECORD.name)
