"""How a batch ends: its leases are settled, and the Spark jobs of its block are cancelled.

All leases are acked when the block succeeds, else nacked, or kept for a retry, each by its own request. The verdicts on
single messages come before all acks, and so does a check that all leases are held, which extends them for the time of
the acks: if one fails, the block fails and nothing is acked. Then all leases are acked, even if one ack fails. Each ack
leaves a record. A record proves to a retry that the block succeeded and its verdicts are settled, so the retry can ack
the rest, and what it has taken over meanwhile.

Verdicts are settled at the end because settled messages can no longer be read: a later read of `df` in the block would
raise. Also, a driver that dies in its block leaves nothing half settled. If it dies while it settles verdicts, a retry
gets the messages that are still unsettled, and decides on them again.

The jobs have a tag, so that any thread can cancel them, on a cluster and over Spark Connect alike. A thread has one job
group, which belongs to the user, but any number of tags.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession

from rmq_core import ConfigurationError, LeaseLost, MessageRef, RedisMessageQueueError
from rmq_core.reports import Outcome
from rmq_spark.batch.held import ShardBatch
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

    keep: whether a failing block keeps the leases, because a table may have their messages under the batch's name.
    """

    def __init__(self, held: Sequence[ShardBatch]) -> None:
        self.keep = False
        self._held = held
        self._failed: dict[MessageRef, Verdict] = {}

    def add(self, failed: DataFrame, reason: str | Column | None, delay: timedelta | float | None) -> int:
        """Record the messages that the rows of `failed` name; return their number. Raises ConfigurationError."""
        reasons = _reasons_of(failed, reason)
        refs = [message.ref for message in chain.from_iterable(self._held) if message.id in reasons]
        strangers = reasons.keys() - {ref.id for ref in refs}
        if strangers:
            raise ConfigurationError(
                f"failed: {len(strangers)} of its {len(reasons)} message ids are not of this batch, such as"
                f" {min(strangers)!r}; take the rows from `batch.df`"
            )
        self._failed.update({ref: (reasons[ref.id], delay) for ref in refs})
        return len(refs)

    def settle(self, held: ShardBatch) -> None:
        """Nack the failed messages of one lease, unless it is settled already. Raises LeaseLost."""
        lease = held.lease
        if lease.state.settled:
            return
        verdicts = {ref: verdict for ref, verdict in self._failed.items() if ref.lease_id == lease.id}
        if any(outcome is Outcome.LOST for _, outcome in nack_each(held.queue, lease, verdicts)):
            raise LeaseLost(lease.id)


@contextmanager
def settled(held: Sequence[ShardBatch], on_failure: OnFailure, keep_ms: int | None = None) -> Iterator[Verdicts]:
    """Settle the held leases when the block ends. Raises LeaseLost for the first lease that is lost.

    keep_ms: how long a failing block leaves leases that it keeps, at least; None leaves them as they are.
    """
    verdicts = Verdicts(held)
    try:
        yield verdicts
        for each in held:
            verdicts.settle(each)
        _verify(held)
    except Exception as error:
        lost = error.lease_id if isinstance(error, LeaseLost) else None
        left = [each for each in held if each.lease.id != lost]
        for each in left if on_failure == "nack" and not verdicts.keep else ():
            _nack(each, verdicts, f"{type(error).__name__}: {error}"[:500])
        if on_failure == "keep" and keep_ms:
            for each in left:
                _leave(each, keep_ms / 1000)
        raise
    _ack(held)


def _verify(held: Sequence[ShardBatch]) -> None:
    """Raise before anything is acked if one of several acks would fail. A single ack needs no such check."""
    left = [each for each in held if not each.lease.state.settled]
    for each in left if len(left) > 1 else ():
        each.keep(None)


def _ack(held: Sequence[ShardBatch]) -> None:
    failures = []
    for each in held:
        try:
            each.finish()
        except RedisMessageQueueError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _nack(held: ShardBatch, verdicts: Verdicts, reason: str) -> None:
    try:
        verdicts.settle(held)
        held.give_up(reason)
    except RedisMessageQueueError as error:  # the caller must see the failure of the work instead
        log.warning("lease %r could not be nacked, it will expire: %s", held.lease.id, error)


def _leave(held: ShardBatch, seconds: float) -> None:
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
