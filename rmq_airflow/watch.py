"""The thread that looks after a submitted lease while the task waits for its driver.

Law: it decides nothing but `stop`. A lost lease stops the driver; an unreachable Redis does not, for the lease may well
be alive, and the fence keeps a driver that has lost it from settling anything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

from rmq_core import LeaseLost, RedisMessageQueueError
from rmq_core.work import Submission

EXIT_GRACE_S = 10.0  # a driver that adopted ends by itself within 5 s of losing its lease, and says why in its log
log = logging.getLogger(__name__)


class LeaseWatch:
    """`with LeaseWatch(submission, stop) as watch:` `watch.lost` is why it stopped the driver."""

    def __init__(self, submission: Submission, stop: Callable[[], None]) -> None:
        self.lost: LeaseLost | None = None
        self._submission, self._stop = submission, stop
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rmq-submission-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()  # it uses the queue, which is closed next

    def _run(self) -> None:
        while not self._ended.wait(self._submission.pace_s):
            try:
                self._submission.look()
            except LeaseLost as error:
                if not (self._submission.adopted and self._ended.wait(EXIT_GRACE_S)):
                    self.lost = error
                    self._stop()
                return
            except RedisMessageQueueError:
                log.warning("lease %s cannot be looked at now", self._submission.lease.id, exc_info=True)
