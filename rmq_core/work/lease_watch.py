"""A thread that keeps and checks a submitted lease while its submitter waits for the driver.

Law: the only decision of this thread is to call `stop`. A lost lease stops the driver. An unreachable Redis does not:
the lease may still be valid, and the fence prevents a driver that has lost the lease from settling anything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

from rmq_core.errors import LeaseLost, RedisMessageQueueError
from rmq_core.work.handover import Submission

EXIT_GRACE_S = 10.0  # a driver that adopted the lease ends by itself within 5 s of losing it, and logs why
log = logging.getLogger(__name__)


class LeaseWatch:
    """Use as `with LeaseWatch(submission, stop) as watch:`; `watch.lost` is the error that made it stop the driver."""

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
        self._thread.join()  # the thread uses the queue, which the caller closes next

    def _run(self) -> None:
        while not self._ended.wait(self._submission.pace_s):
            try:
                self._submission.poll()
            except LeaseLost as error:
                if not (self._submission.adopted and self._ended.wait(EXIT_GRACE_S)):
                    self.lost = error
                    self._stop()
                return
            except RedisMessageQueueError:
                log.warning("Lease %s cannot be read now.", self._submission.lease.id, exc_info=True)
