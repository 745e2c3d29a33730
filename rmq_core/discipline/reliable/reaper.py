"""`Reaper` and `AsyncReaper` requeue the messages of workers that died, round by round."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rmq_core.discipline.reliable.operations.reaping import Reaped
from rmq_core.errors import QueueFull, QueueUnavailable
from rmq_core.policy import seconds
from rmq_core.queue.base import Awaited, Blocking
from rmq_core.queue.twin import Twin, awaited

if TYPE_CHECKING:
    from rmq_core.discipline.reliable.aio import AsyncReliableQueue
    from rmq_core.discipline.reliable.sync import ReliableQueue

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
