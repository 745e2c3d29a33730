"""Operations for operators: redrive and purge."""

from __future__ import annotations

from functools import partial

from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Exchange, number_after
from rmq_core.exchange.scripts import script
from rmq_core.kernel.selecting import Changes, redrive_all
from rmq_core.policy import whole
from rmq_core.protocol import lacking
from rmq_core.reliable.state import DISCIPLINE, ReliableEngine


def redrive(engine: ReliableEngine, max_messages: int | None = None) -> Exchange[int]:
    """Move the oldest dead letters back to the queue with a fresh delivery budget; return how many."""
    changes = Changes(None if max_messages is None else whole("max_messages", max_messages, minimum=1))
    yield from redrive_all(partial(script, "reliable/redrive", engine.keys), changes)
    return changes.changed


def purge(engine: ReliableEngine, target: str) -> Exchange[int]:
    """Delete all messages in `ready` or `dead`; return how many. Messages that workers hold are not deleted."""
    if target == "delayed":
        raise lacking(DISCIPLINE, "delay", "delayed messages")
    keys = {"ready": engine.keys.queue, "dead": engine.keys.dead}
    if target not in keys:
        raise ConfigurationError(f"target must be ready or dead, not {target!r}")
    return number_after(b"removed ", (yield script("reliable/purge", list=keys[target])))
