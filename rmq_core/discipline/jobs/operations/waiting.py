"""Waits for the next due time, for clients that promote delayed jobs."""

from __future__ import annotations

from rmq_core.discipline.jobs.engine import JobsEngine
from rmq_core.discipline.jobs.operations.reading import Tick
from rmq_core.discipline.jobs.operations.repeating import promote
from rmq_core.exchange import Exchange, Listen, blocks_for

_LONGEST_MS = 5000
_MOST = 1000


def promote_and_wait(engine: JobsEngine) -> Exchange[Tick]:
    """Do all due work, then wait for the next due time, at most 5 s. A new, earlier due time ends the wait."""
    seen = yield from promote(engine)
    if seen.promoted < _MOST:
        block = _LONGEST_MS if seen.next_ms is None else max(1, min(_LONGEST_MS, seen.next_ms - seen.now_ms))
        yield Listen(("BLPOP", engine.keys.alarm, blocks_for(block)), block)
    return seen
