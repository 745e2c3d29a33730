"""Operations for operators: redrive and purge."""

from __future__ import annotations

from math import inf

from rmq_core.errors import ConfigurationError, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.policy import whole
from rmq_core.protocol import lacking
from rmq_core.reliable.state import DISCIPLINE, ReliableEngine

_PAGE = 1000


def redrive(engine: ReliableEngine, max_messages: int | None = None) -> Exchange[int]:
    """Move the oldest dead letters back to the queue with a fresh delivery budget; return how many."""
    left = inf if max_messages is None else whole("max_messages", max_messages, minimum=1)
    redriven = 0
    while redriven < left:
        most = int(min(_PAGE, left - redriven))
        count = _number((yield script("reliable/redrive", engine.keys, most=most)), b"redriven ")
        if not count:
            break
        redriven += count
    return redriven


def purge(engine: ReliableEngine, target: str) -> Exchange[int]:
    """Delete all messages in `ready` or `dead`; return how many. Messages that workers hold are not deleted."""
    if target == "delayed":
        raise lacking(DISCIPLINE, "delay", "delayed messages")
    keys = {"ready": engine.keys.queue, "dead": engine.keys.dead}
    if target not in keys:
        raise ConfigurationError(f"target must be ready or dead, not {target!r}")
    return _number((yield script("reliable/purge", list=keys[target])), b"removed ")


def _number(reply: bytes, prefix: bytes) -> int:
    if not reply.startswith(prefix):
        raise ScriptFailed(f"the server answered {reply.decode()!r}")
    return int(reply[len(prefix) :])
