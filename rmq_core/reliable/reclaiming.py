"""Requeues messages that a worker holds for too long: the operation, and `Reaper`, which repeats it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from rmq_core.errors import QueueFull, QueueUnavailable, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settling import reported_in
from rmq_core.policy import milliseconds, seconds, whole
from rmq_core.reliable.inspecting import lists_of, page_of_workers
from rmq_core.reliable.state import ReliableEngine
from rmq_core.twin import Awaited, Blocking, Twin, awaited

if TYPE_CHECKING:
    from rmq_core.reliable.aio import AsyncReliableQueue
    from rmq_core.reliable.queue import ReliableQueue


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
        reply, *_ = reported_in(engine, reply)
        if not reply.startswith(b"reaped "):
            raise ScriptFailed(f"reap got {reply.decode()!r}")
        more = [int(word) for word in reply.split()[1:]]
        back, dead, seen, at = back + more[0], dead + more[1], seen + more[2], more[3]
    return Reaped(back, dead, seen)


_log = logging.getLogger("rmq")


class ReaperBase:
    """Requeues the messages of workers that died. Any number of reapers may run, in any processes.

    timeout: how long (seconds or timedelta) a message may be held. max_deliveries: after this many failed deliveries a
    message becomes a dead letter. None means the queue's own setting. interval: the pause between two rounds; None
    means a tenth of the timeout, at least 0.1 s and at most a minute.
    """

    def __init__(
        self,
        queue: ReliableQueue | AsyncReliableQueue,
        timeout: timedelta | float | None = None,
        max_deliveries: int | None = None,
        interval: timedelta | float | None = None,
    ) -> None:
        self.queue, self.timeout, self.max_deliveries = queue, timeout, max_deliveries
        held_s = seconds("timeout", queue.config.timeout if timeout is None else timeout, minimum=0.001)
        own = min(60.0, max(0.1, held_s / 10))
        self.interval_s = own if interval is None else seconds("interval", interval, minimum=0.001)

    @Twin
    async def run_once(self) -> Reaped:
        """Check the messages of every worker once."""
        found: Reaped = await awaited(self.queue.reap(self.timeout, self.max_deliveries))
        return found

    @Twin
    async def run(self, stop: threading.Event | asyncio.Event) -> None:
        """Repeat rounds until `stop` is set. If the server does not answer or is full, the next round tries again.

        stop: a threading.Event, or for asyncio an asyncio.Event.
        """
        while not stop.is_set():
            try:
                await awaited(self.run_once())
            except (QueueUnavailable, QueueFull) as error:
                _log.warning("a round of the reaper of queue %r failed: %s", self.queue.name, error)
            await _rest(stop, self.interval_s)


async def _rest(stop: Any, interval_s: float) -> None:
    if isinstance(stop, asyncio.Event):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), interval_s)
    else:
        stop.wait(interval_s)


class Reaper(ReaperBase, Blocking):
    __doc__ = ReaperBase.__doc__


class AsyncReaper(ReaperBase, Awaited):
    """The asyncio version of Reaper."""
