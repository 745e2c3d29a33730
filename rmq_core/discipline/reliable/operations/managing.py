"""Operations for operators: redrive and purge."""

from __future__ import annotations

from rmq_core.discipline.reliable.config import DISCIPLINE
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.operations.selecting import purge_where, redrive_where
from rmq_core.envelope.matching import Match
from rmq_core.errors import ConfigurationError, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.policy import whole
from rmq_core.protocol import lacking
from rmq_core.queue.choosing import Changes
from rmq_core.reports import OnProgress

_PAGE = 1000


def redrive(
    engine: ReliableEngine,
    max_messages: int | None = None,
    *,
    where: Match | None = None,
    progress: OnProgress | None = None,
) -> Exchange[int]:
    """Move the oldest dead letters back to the queue with a fresh delivery budget; return how many.

    where: only those that meet these conditions. progress: called after each step; the redrive ends there if it returns
    False.
    """
    if max_messages is not None:
        whole("max_messages", max_messages, minimum=1)
    changes = Changes(max_messages, progress)
    try:
        yield from redrive_where(engine, where, changes) if where is not None else _redrive_all(engine, changes)
    finally:
        engine.redriven(changes.changed)
    return changes.changed


def _redrive_all(engine: ReliableEngine, changes: Changes) -> Exchange[None]:
    while not changes.over:
        ask = _PAGE if changes.left is None else min(_PAGE, changes.left)
        count = _number((yield script("reliable/redrive", engine.keys, most=ask)), b"redriven ")
        if not count:
            break
        changes.add(count)


def purge(
    engine: ReliableEngine, target: str, *, where: Match | None = None, progress: OnProgress | None = None
) -> Exchange[int]:
    """Delete all messages in `ready` or `dead`; return how many. Messages that workers hold are not deleted.

    where: only those that meet these conditions. progress: called after each step of a purge with conditions, which
    ends there if it returns False.
    """
    if target == "delayed":
        raise lacking(DISCIPLINE, "delay", "delayed messages")
    keys = {"ready": engine.keys.queue, "dead": engine.keys.dead}
    if target not in keys:
        raise ConfigurationError(f"target must be ready or dead, not {target!r}")
    if where is not None:
        removed = yield from purge_where(engine, target, where, Changes(progress=progress))
    else:
        removed = _number((yield script("reliable/purge", list=keys[target])), b"removed ")
    engine.mark("purge", f"{removed} of {target}")
    return removed


def _number(reply: bytes, prefix: bytes) -> int:
    if not reply.startswith(prefix):
        raise ScriptFailed(f"the server answered {reply.decode()!r}")
    return int(reply[len(prefix) :])
