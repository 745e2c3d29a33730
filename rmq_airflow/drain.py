"""Process batch after batch of one queue, under one task's name, until the queue is empty or a bound is reached.

Law: the task holds one lease at a time, always of the same name, so that a retry finds the messages that a killed try
held. A failed message does not end the drain; only an error that is not the fault of a message does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypedDict

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException

from rmq_airflow.batch import TaskBatch, claim
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.metrics import working_on
from rmq_core import LeasedQueue, LeaseLost, Message
from rmq_core.orchestrate import check_done, conclude

FAILED_DELAY_S = 60.0  # without this delay, a drain would retry a failing message ten times within a second
Ended = Literal["empty", "max_messages", "max_time"]
log = logging.getLogger(__name__)


class ConsumeReport(TypedDict):
    """The result of a drain: constant in size, without a token or a payload."""

    queue: str
    ended: Ended
    claimed: int
    acked: int
    failed: int
    dead: int
    isolated: int
    settled_before: bool


class TooManyFailures(AirflowException):
    """More messages failed than `max_failures` allows, so the cause is probably not in the messages."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a drain ends, and how long a failed message waits.

    None means no bound; for `failed_delay_s` it means the queue's own delay. sequential: the messages of a batch are
    worked on one by one (`Drain.work_on_each`), so that a crash is blamed on one of them.
    """

    batch_size: int
    max_messages: int | None = None
    max_time_s: float | None = None
    max_failures: int | None = None
    failed_delay_s: float | None = None
    sequential: bool = False


class Drain:
    """Use as `for batch in drain.batches(): drain.work_on_each(batch, function)`; `report` holds the totals.

    The caller must send heartbeats while it works on a batch. groups: only messages of these are claimed.
    """

    def __init__(
        self, queue: LeasedQueue, identity: TaskIdentity, bounds: Bounds, groups: list[str] | None = None
    ) -> None:
        self._queue, self._identity, self._bounds, self._groups = queue, identity, bounds, groups
        self.report: ConsumeReport = {
            "queue": queue.name, "ended": "empty", "claimed": 0, "acked": 0, "failed": 0, "dead": 0,
            "isolated": 0, "settled_before": False,
        }  # fmt: skip

    @property
    def _delay(self) -> float | None:
        """How long a failed message waits; None for the backoff of the queue, which may be stored with it."""
        given = self._bounds.failed_delay_s
        return FAILED_DELAY_S if given is None and self._queue.config.backoff is None else given

    def batches(self) -> Iterator[TaskBatch]:
        """Claim and yield one batch after another; the caller must work on each before it requests the next.

        A batch of which the codec refuses every payload is not yielded: its messages are dead letters already.
        """
        started = time.monotonic()
        while True:
            bound = self._reached(time.monotonic() - started)
            if bound is not None:
                self.report["ended"] = bound
                return
            claimed = claim(
                self._queue, self._identity, max_messages=self._size, sequential=self._bounds.sequential,
                groups=self._groups,
            )  # fmt: skip
            self.report["isolated"] += claimed.isolated
            self.report["settled_before"] |= claimed.settled_before
            lease = claimed.lease
            if lease is None:
                return
            # The next batch uses the same lease id, so the ack of this one must leave no record under that id.
            batch = TaskBatch(self._queue, replace(lease, named=False))
            log.info("Claimed %d messages of %s under lease %s.", batch.claimed, self._queue.name, lease.id)
            if batch:
                yield batch
            self._add(batch)
            self._check_failures()

    def work_on_each(self, batch: TaskBatch, function: Callable[[Message], object]) -> None:
        """Call the function with each message; ack those for which it returns, nack the others."""
        for message in batch:
            batch.check()
            batch.in_hand = [message]
            try:
                with working_on(self._queue.name, [message]):
                    result = function(message)
            except ENDS_DRAIN:
                raise
            except Exception as error:
                log.warning("Message %s failed: %s", message.id, type(error).__name__, exc_info=True)
                batch.nack(message, reason=reason_of(error), delay=self._delay)
                self._check_failures(batch.failed)
            else:
                check_done("`on_message`", result)
                batch.check()
                batch.ack(message)

    def work_on_all(self, batch: TaskBatch, function: Callable[[TaskBatch], object]) -> None:
        """Call the function once. Ack the messages that it left unsettled when it returns, nack them when it raises."""
        batch.in_hand = batch
        try:
            with working_on(self._queue.name, batch):
                result = function(batch)
        except ENDS_DRAIN:
            raise
        except Exception as error:
            batch.check()
            log.warning("A batch of %d messages failed: %s", len(batch), type(error).__name__, exc_info=True)
            batch.give_up(reason_of(error), delay=self._delay)
        else:
            check_done("`on_batch`", result)
            batch.finish()
        self._check_failures(batch.failed)

    def stop(self, batch: TaskBatch, error: BaseException) -> None:
        """End the drain after an exception: nack the messages that the function was working on, release the others."""
        conclude(batch, reason_of(error), retried=False)
        self._add(batch)

    @property
    def _size(self) -> int:
        most, bound = self._bounds.batch_size, self._bounds.max_messages
        return most if bound is None else min(most, bound - self.report["claimed"])

    def _reached(self, elapsed_s: float) -> Ended | None:
        if self._size <= 0:
            return "max_messages"
        late = self._bounds.max_time_s is not None and elapsed_s >= self._bounds.max_time_s
        return "max_time" if late else None

    def _add(self, batch: TaskBatch) -> None:
        self.report["claimed"] += batch.claimed
        self.report["acked"] += batch.acked
        self.report["failed"] += batch.failed
        self.report["dead"] += batch.dead

    def _check_failures(self, in_work: int = 0) -> None:
        failed, most = self.report["failed"] + in_work, self._bounds.max_failures
        if most is not None and failed > most:
            raise TooManyFailures(
                f"{failed} messages of {self._queue.name} failed, more than max_failures={most}; the reasons are in "
                "this log and in the history of the messages"
            )


ENDS_DRAIN = (AirflowFailException, AirflowSkipException, LeaseLost, TooManyFailures)


def reason_of(error: BaseException) -> str:
    """Return the reason that a nack records for the exception that caused it."""
    return f"{type(error).__name__}: {error}"
