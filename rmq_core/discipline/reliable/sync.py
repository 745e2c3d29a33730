"""`ReliableQueue` and its `Reaper`, run by the blocking driver."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.methods import ReliableMethods
from rmq_core.discipline.reliable.operations.reaping import Reaped
from rmq_core.discipline.reliable.pace import pause_between
from rmq_core.errors import QueueFull, QueueUnavailable
from rmq_core.queue.sync import Facade

_log = logging.getLogger("rmq")


class ReliableQueue(ReliableMethods, Facade[ReliableEngine]):
    """A queue whose messages stay in a list of their worker until they are acked. Threads may share it.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. Messages of
    workers that died come back when a Reaper runs, somewhere.
    """


class Reaper:
    """Brings back the messages of workers that died. Any number of them may run, anywhere.

    timeout: how long (seconds or timedelta) a message may be held. max_deliveries: a message that failed so often
    becomes a dead letter. Both are the queue's own when None. interval: the rest between two rounds; when None, a
    tenth of the timeout, at least 0.1 s and at most a minute.
    """

    def __init__(
        self,
        queue: ReliableQueue,
        timeout: timedelta | float | None = None,
        max_deliveries: int | None = None,
        interval: timedelta | float | None = None,
    ) -> None:
        self.queue, self.timeout, self.max_deliveries = queue, timeout, max_deliveries
        self.interval_s = pause_between(interval, queue.config.timeout if timeout is None else timeout)

    def run_once(self) -> Reaped:
        """One round through what every worker holds."""
        return self.queue.reap(self.timeout, self.max_deliveries)

    def run(self, stop: threading.Event) -> None:
        """Round after round until `stop` is set. A server that does not answer, or is full, is tried again."""
        while not stop.is_set():
            try:
                self.run_once()
            except (QueueUnavailable, QueueFull) as error:
                _log.warning("a round of the reaper of queue %r failed: %s", self.queue.name, error)
            stop.wait(self.interval_s)
