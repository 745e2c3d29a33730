"""Having a consumer's name: entered before the first claim, renewed by a thread, given up with the process.

A restart of the same stream takes the name at once and fences off whoever had it. A run of another stream has to wait
until the one before it is silent; one that is alive refuses it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from functools import partial

from rmq_core import ConsumerTaken, Enrolment, LeasedQueue, RedisMessageQueueError

log = logging.getLogger(__name__)

CLOSING_S = 5.0
MARGIN_S = 0.05  # for the server to see that the time is over


class Membership:
    """This run's hold on a consumer's name. `run` is the owner of its leases."""

    def __init__(self, queue: LeasedQueue, consumer: str, stream: str, alive_s: float) -> None:
        self.run = f"spark-{uuid.uuid4().hex}"
        self._enroll = partial(queue.enroll, consumer, run=self.run, stream=stream, alive=alive_s)
        self._renewal = partial(queue.stay, consumer, run=self.run, stream=stream, alive=alive_s)
        self._consumer = consumer
        self._alive_s = alive_s
        self._finished = 0
        self._taken: ConsumerTaken | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"rmq-consumer-{consumer}", daemon=True)

    def enter(self) -> Enrolment:
        """Take the name and keep it from now on. Raises ConsumerTaken when a run of another stream is alive."""
        try:
            entered = self._enroll()
        except ConsumerTaken as taken:
            time.sleep(taken.left + MARGIN_S)
            entered = self._enroll()  # who lives has renewed the name by now
        self._finished = entered.finished
        self._thread.start()
        return entered

    def finish(self, seq: int) -> None:
        """Note that all batches up to `seq` are finished. Raises ConsumerTaken when another run has the name by now."""
        self.check()
        self._finished = max(self._finished, seq)
        self._stay()

    def check(self) -> None:
        """Raise ConsumerTaken when another run is known to have the name."""
        if self._taken is not None:
            raise self._taken

    def close(self) -> None:
        """Let the name run out; waits for a renewal under way, which would give it another while."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSING_S)

    def _renew(self) -> None:
        while not self._closed.wait(self._alive_s / 3):
            try:
                self._stay()
            except ConsumerTaken as taken:
                self._taken = taken
                log.error("%s", taken)  # noqa: TRY400  where it was raised says nothing
                return
            except RedisMessageQueueError as error:  # the next beat, or the next batch, will tell
                log.warning("consumer %r could not be renewed: %s", self._consumer, error)

    def _stay(self) -> None:
        self._renewal(finished=self._finished)
