"""Inspect a queue and the messages that its workers hold."""

from __future__ import annotations

from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.envelope.codec import Message, message_of
from rmq_core.exchange import Call, Command, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.policy import whole
from rmq_core.reports import Backlog, QueueStats

_PAGE = 1000


def backlog(engine: ReliableEngine) -> Exchange[Backlog]:
    """Return the number of messages in the queue and the age of the oldest.

    A reaper must requeue the messages of dead workers before they count.
    """
    ready, _, _, _, oldest, now = yield _stats(engine, [])
    return Backlog(ready, _age(oldest, now))


def stats(engine: ReliableEngine) -> Exchange[QueueStats]:
    """Return what the queue holds. This is no snapshot: each call counts the messages of at most 1,000 workers."""
    leased = leases = first = 0
    while True:
        workers = yield from page_of_workers(engine, first)
        ready, dead, held, tokens, oldest, now = yield _stats(engine, workers)
        leased, leases, first = leased + held, leases + tokens, first + len(workers)
        if len(workers) < _PAGE:
            return QueueStats(ready, 0, leased, leases, dead, _age(oldest, now), paused=False)


def page_of_workers(engine: ReliableEngine, first: int) -> Exchange[list[str]]:
    """Return the names of up to 1,000 workers from index `first` on, the least recently seen first."""
    found = yield Command(("ZRANGE", engine.keys.workers, first, first + _PAGE - 1))
    return [name.decode() if isinstance(name, bytes) else name for name in found]


def peek(engine: ReliableEngine, count: int = 1) -> Exchange[list[Message]]:
    """Return the messages that would be claimed next, at most `count` of them, oldest first."""
    found = yield script("lists/peek", list=engine.keys.queue, count=whole("count", count, minimum=1))
    return [message_of(envelope) for envelope in reversed(found)]


def dead_letters(engine: ReliableEngine, count: int = 10) -> Exchange[list[Message]]:
    """Return the newest dead letters with their history, at most `count` of them."""
    found = yield script("lists/peek", list=engine.keys.dead, count=-whole("count", count, minimum=1))
    return [message_of(envelope) for envelope in found]


def lists_of(engine: ReliableEngine, workers: list[str]) -> list[bytes]:
    """Return the keys of the processing list and of the claims of each worker."""
    return [key for worker in workers for key in (engine.keys.processing(worker), engine.keys.claims(worker))]


def _stats(engine: ReliableEngine, workers: list[str]) -> Call:
    return script("reliable/stats", engine.keys, lists=lists_of(engine, workers))


def _age(oldest: bytes, now: int) -> float | None:
    return max(0.0, (int(now) - int(oldest)) / 1000) if oldest else None
