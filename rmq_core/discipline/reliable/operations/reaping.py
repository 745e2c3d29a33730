"""Requeue messages that a worker holds for too long: they keep their order, and the delivery is counted."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.operations.inspecting import lists_of, page_of_workers
from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.policy import milliseconds, whole
from rmq_core.queue.settle import trimmed_in


class Reaped(NamedTuple):
    """How many messages were requeued, became dead letters, or were first seen now as held without a claim."""

    returned: int
    dead: int
    first_seen: int


def reap(
    engine: ReliableEngine, timeout: timedelta | float | None = None, max_deliveries: int | None = None
) -> Exchange[Reaped]:
    """Check the messages of every worker once, and requeue those that are held for longer than `timeout`.

    timeout, max_deliveries: None uses the queue's configuration. A time that a claim or extension set overrides
    `timeout`.
    """
    timeout_ms = milliseconds("timeout", engine.config.timeout if timeout is None else timeout, minimum=0.001)
    most = (
        engine.config.max_deliveries if max_deliveries is None else whole("max_deliveries", max_deliveries, minimum=1)
    )
    total, first = [0, 0, 0], 0
    while workers := (yield from page_of_workers(engine, first)):
        busy = yield script("reliable/busy", engine.keys, lists=lists_of(engine, workers), names=workers)
        for worker in busy:
            found = yield from _reap_worker(engine, worker.decode(), timeout_ms, most or 0)
            total = [a + b for a, b in zip(total, found, strict=True)]
        first += len(workers)
    return Reaped(*total)


def _reap_worker(engine: ReliableEngine, worker: str, timeout_ms: int, most: int) -> Exchange[Reaped]:
    keys, back, dead, seen, at = engine.keys, 0, 0, 0, 0
    while at >= 0:
        reply = yield script(
            "reliable/reap", keys, processing=keys.processing(worker), claims=keys.claims(worker), worker=worker,
            timeout_ms=timeout_ms, max_deliveries=most, max_dead=engine.config.max_dead, offset=at,
        )  # fmt: skip
        reply, _ = trimmed_in(engine, reply)
        if not reply.startswith(b"reaped "):
            raise ScriptFailed(f"reap got {reply.decode()!r}")
        more = [int(word) for word in reply.split()[1:]]
        back, dead, seen, at = back + more[0], dead + more[1], seen + more[2], more[3]
    return Reaped(back, dead, seen)
