"""How a batch ends: its lease is settled, and the Spark jobs of its block are cancelled.

The lease is acked when the block succeeds, else nacked, or kept for a retry. The verdicts on single messages come
before the ack: if one fails, the block fails and nothing is acked. The ack leaves a record, which proves to a retry
that the block succeeded and its verdicts are settled.

Verdicts are settled at the end because settled messages can no longer be read: a later read of `df` in the block would
raise. Also, a driver that dies in its block leaves nothing half settled. If it dies while it settles verdicts, a retry
gets the messages that are still unsettled, and decides on them again.

The jobs have a tag, so that any thread can cancel them, on a cluster and over Spark Connect alike. A thread has one job
group, which belongs to the user, but any number of tags.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession

from rmq_core import ConfigurationError, LeaseLost, MessageRef, RedisMessageQueueError
from rmq_core.reports import Outcome
from rmq_spark.batch.held import HeldBatch
from rmq_spark.write.settling import Verdict, nack_each

CONNECT_PARALLELISM = 4  # a Connect server does not report how many cores it has


@contextmanager
def tagged_jobs(spark: SparkSession) -> Iterator[Callable[[], object]]:
    """Tag the jobs that this thread starts in the block; yield a function that cancels them from any thread."""
    tag = f"rmq-{uuid.uuid4().hex}"
    cancel: Callable[[str], object]
    if is_connect(spark):
        add, remove, cancel = spark.addTag, spark.removeTag, spark.interruptTag
    else:  # the tags of a classic session leave out the jobs of RDDs, which foreachPartition starts
        context = spark.sparkContext
        add, remove, cancel = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    add(tag)
    try:
        yield partial(cancel, tag)
    finally:
        remove(tag)


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session talks to a Spark Connect server; such a session has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks can run at once, as far as the session knows."""
    return CONNECT_PARALLELISM if is_connect(spark) else spark.sparkContext.defaultParallelism


log = logging.getLogger(__name__)

OnFailure: TypeAlias = Literal["nack", "keep"]


class Verdicts:
    """The failed messages of a batch, each with its reason. The last verdict on a message counts.

    keep: whether a failing block keeps the lease, because a table may have their messages under the batch's name.
    """

    def __init__(self, held: HeldBatch) -> None:
        self.keep = False
        self._held = held
        self._failed: dict[MessageRef, Verdict] = {}

    def add(self, failed: DataFrame, reason: str | Column | None, delay: timedelta | float | None) -> int:
        """Record the messages that the rows of `failed` name; return their number. Raises ConfigurationError."""
        reasons = _reasons_of(failed, reason)
        refs = [message.ref for message in self._held if message.id in reasons]
        strangers = reasons.keys() - {ref.id for ref in refs}
        if strangers:
            raise ConfigurationError(
                f"failed: {len(strangers)} of its {len(reasons)} message ids are not of this batch, such as"
                f" {min(strangers)!r}; take the rows from `batch.df`"
            )
        self._failed.update({ref: (reasons[ref.id], delay) for ref in refs})
        return len(refs)

    def settle(self) -> None:
        """Nack the failed messages, unless the lease is settled already. Raises LeaseLost."""
        lease = self._held.lease
        if lease.state.settled:
            return
        if any(outcome is Outcome.LOST for _, outcome in nack_each(self._held.queue, lease, self._failed)):
            raise LeaseLost(lease.id)


@contextmanager
def settled(held: HeldBatch, on_failure: OnFailure, keep_ms: int | None = None) -> Iterator[Verdicts]:
    """Settle the lease when the block ends. Raises LeaseLost.

    keep_ms: how long a failing block leaves a lease that it keeps, at least; None leaves it as it is.
    """
    verdicts = Verdicts(held)
    try:
        yield verdicts
        verdicts.settle()
    except Exception as error:
        if isinstance(error, LeaseLost) and error.lease_id == held.lease.id:
            raise
        if on_failure == "nack" and not verdicts.keep:
            _nack(held, verdicts, f"{type(error).__name__}: {error}"[:500])
        if on_failure == "keep" and keep_ms:
            _leave(held, keep_ms / 1000)
        raise
    held.finish()


def _nack(held: HeldBatch, verdicts: Verdicts, reason: str) -> None:
    try:
        verdicts.settle()
        held.give_up(reason)
    except RedisMessageQueueError as error:  # the caller must see the failure of the work instead
        log.warning("lease %r could not be nacked, it will expire: %s", held.lease.id, error)


def _leave(held: HeldBatch, seconds: float) -> None:
    try:
        held.keep(seconds)
    except RedisMessageQueueError as error:  # the caller must see the failure of the work instead
        log.warning("lease %r could not be kept for a retry, it will expire: %s", held.lease.id, error)


def _reasons_of(failed: DataFrame, reason: str | Column | None) -> dict[str, str | None]:
    """Evaluate the DataFrame and return the reason of each message id. Raises ConfigurationError."""
    if "message_id" not in failed.columns:
        raise ConfigurationError(
            f"`failed` has no column message_id, only {', '.join(failed.columns)}: keep that column"
        )
    if reason is None or isinstance(reason, str):
        return dict.fromkeys((row.message_id for row in failed.select("message_id").collect()), reason)
    return dict(failed.select("message_id", reason.cast("string")).collect())
