"""A batch of messages as a DataFrame, held by the driver: claimed or adopted, extended, and settled at the end.

The driver is the only holder: its heartbeat extends the lease, its success acks the messages, and when the lease is
lost it stops Spark's jobs. Delivery is at least once; effects are exactly once when writes are keyed by the message, so
that a second delivery overwrites the first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal, TypedDict, Unpack

from pyspark.sql import Column, DataFrame, SparkSession

from rmq_core import (
    ConfigurationError,
    Isolation,
    Lease,
    LeaseAlreadySettled,
    LeasedConfig,
    LeasedQueue,
    LeaseLost,
    RedisSettings,
)
from rmq_core.orchestrate import Handover
from rmq_core.tracing import traced
from rmq_spark.batch.ending import OnFailure, Verdicts, parallelism, settled, tagged_jobs
from rmq_spark.batch.held import HeldBatch, name_of
from rmq_spark.batch.watch import LossWatch, exit_with_parent
from rmq_spark.data_source import frame_of
from rmq_spark.place.source import application_of, owner_of
from rmq_spark.read.lease import LeaseReader, info_of, plan
from rmq_spark.schema import MESSAGE_SCHEMA

log = logging.getLogger(__name__)

MANY = 10_000  # for fewer, Spark's overhead weighs more than the work
MOST_PARTITIONS = 32  # more readers than this only wait for Redis


@dataclass(frozen=True, kw_only=True)
class BatchPolicy:
    """How a batch handles failures.

    `on_failure`: "nack" requeues the messages with a delivery counted, "keep" leaves the lease to a retry.
    `on_settled`: when an earlier run acked this lease id, "skip" yields an empty batch, "raise" raises.
    `exit_driver`: end the whole process within five seconds of the loss of the lease, or, for an adopted batch, of the
    end of the process that started it; otherwise a loss cancels the batch's Spark jobs and raises LeaseLost.
    `partitions`: the maximum number of partitions of the DataFrame; by default two for each core, up to 32.
    `traced`: make spans of OpenTelemetry for the driver's claim and settlement; needs `rmq[otel]`.
    """

    on_failure: OnFailure = "nack"
    on_settled: Literal["skip", "raise"] = "skip"
    exit_driver: bool = False
    partitions: int | None = None
    traced: bool = False


CLAIMED = BatchPolicy()
ADOPTED = BatchPolicy(on_failure="keep", exit_driver=True)  # the submitter knows whether retries remain


@dataclass(frozen=True)
class ClaimedBatch:
    """The messages as `df` (columns: `MESSAGE_SCHEMA`) and their number, `len(batch)`. Without work it is false.

    Unlike a Batch of the core it settles no message before its end.

    `already_settled`: the batch is empty because an earlier run processed and acked its messages. `name`: an
    idempotency key for writes of these messages, such as a `sinkId`: a retry that takes the lease over has the same
    name, another claim a different one, even under the same lease id.
    """

    df: DataFrame
    _lease: Lease | None = None
    already_settled: bool = False
    watch: LossWatch | None = None
    verdicts: Verdicts | None = None
    name: str = ""
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    @property
    def lease(self) -> Lease:
        """Return the lease of the messages. Raises ConfigurationError for an empty batch."""
        if self._lease is None:
            raise ConfigurationError("nothing was claimed; check `if batch:` before its lease")
        return self._lease

    @property
    def isolation(self) -> Isolation | None:
        """Return why a claim returned fewer messages than requested, if they had failed together before; else None."""
        return None if self._lease is None else self._lease.isolation

    def check(self) -> None:
        """Raise LeaseLost when the lease is lost; call this before a step that cannot be undone."""
        if self.watch:
            self.watch.check()

    def nack(
        self, failed: DataFrame, *, reason: str | Column | None = None, delay: timedelta | float | None = None
    ) -> int:
        """Nack the messages of these rows when the block ends, instead of acking them; return the number of messages.

        failed: rows of `df`, or rows derived from them that keep `message_id`; evaluated once, now, and their ids
        collected by the driver. reason: one for all, or a column of `failed`. delay: seconds or timedelta before they
        are ready again; None uses the queue's backoff. A block that fails also nacks them with their own reason. Raises
        ConfigurationError for messages of another batch.
        """
        return self.verdicts.add(failed, reason, delay) if self.verdicts else 0


class Claim(TypedDict, total=False):
    """The arguments of `LeasedQueue.claim`."""

    max_messages: int
    lease_id: str | None
    owner: str | None
    lease: float | timedelta | None
    wait: float | timedelta
    groups: Collection[str] | None


@contextmanager
def claimed_batch(
    spark: SparkSession,
    redis: RedisSettings | str,
    queue: str,
    *,
    config: LeasedConfig | None = None,
    policy: BatchPolicy = CLAIMED,
    **claim: Unpack[Claim],
) -> Iterator[ClaimedBatch]:
    """Claim messages of a queue, and ack them when the block succeeds.

    Takes the arguments of `LeasedQueue.claim`, but claims up to 10,000 messages unless `max_messages` says otherwise.
    A `lease_id` that names the work (a run, a task) makes a restart get the same messages again. The owner is
    `spark:<application id>` unless it is given. `redis` is a URL or settings, because the executors have to connect
    too. The lease is left alone on KeyboardInterrupt and SystemExit. Raises LeaseLost when another holder got the
    messages meanwhile.
    """
    settings = _settings(redis)
    arguments: Claim = {"max_messages": MANY, **claim}
    if arguments.get("owner") is None:
        arguments["owner"] = owner_of(application_of(spark))
    with LeasedQueue(settings, queue, config) as opened:
        leased = _traced(policy, opened)
        take = partial(leased.claim, **arguments)
        with _batch(spark, settings, leased, take, policy, claim.get("lease")) as batch:
            yield batch


@contextmanager
def adopted_batch(
    spark: SparkSession, handover: Handover | None = None, *, policy: BatchPolicy = ADOPTED
) -> Iterator[ClaimedBatch]:
    """Adopt the lease that a submitter handed over to this process, and ack it on success.

    By default it is found with `Handover.find`: in the parameters, in the extras of Dagster Pipes or in the
    environment. On failure the lease is kept, and the submitter decides on it; if no submitter watches, it is left for
    the time that the hand-over names, so that a retry of the submission can adopt it. Raises LeaseLost when the lease
    is gone or has another owner, and ConfigurationError when no lease was handed over.
    """
    found = handover or Handover.find()
    if policy.exit_driver:
        exit_with_parent()
    with LeasedQueue(found.settings, found.queue, found.config) as opened:
        leased = _traced(policy, opened)
        adopt = partial(leased.adopt, found.lease_id, if_owner=found.owner)
        with _batch(spark, found.settings, leased, adopt, policy, keep_ms=found.adopt_ms) as batch:
            yield batch


@contextmanager
def _batch(
    spark: SparkSession,
    settings: RedisSettings,
    queue: LeasedQueue,
    take: Callable[[], Lease | None],
    policy: BatchPolicy,
    lease_time: float | timedelta | None = None,
    keep_ms: int | None = None,
) -> Iterator[ClaimedBatch]:
    lease, already_settled = None, False
    try:
        lease = take()
    except LeaseAlreadySettled:
        if policy.on_settled == "raise":
            raise
        already_settled = True
    if lease is None:
        yield ClaimedBatch(spark.createDataFrame([], MESSAGE_SCHEMA), already_settled=already_settled)
        return
    if lease.isolation:
        log.warning("lease %r has only %d messages: %s", lease.id, lease.count, lease.isolation)
    held = HeldBatch(queue, lease)
    with (
        settled(held, policy.on_failure, keep_ms) as verdicts,
        _watched(spark, held, policy) as watch,
        queue.hold(lease, lease_time, on_lost=watch.lose),
    ):
        info = info_of(queue, lease.id)
        slices = plan(queue, lease, info, policy.partitions or min(MOST_PARTITIONS, 2 * parallelism(spark)))
        frame = frame_of(spark, LeaseReader(settings, slices))
        count = sum(piece.unsettled for piece in slices)
        yield ClaimedBatch(frame, lease, watch=watch, verdicts=verdicts, name=name_of(info), _count=count)


@contextmanager
def _watched(spark: SparkSession, held: HeldBatch, policy: BatchPolicy) -> Iterator[LossWatch]:
    """Cancel the block's Spark jobs when the lease is lost, and raise LeaseLost in place of their errors.

    A block that ends without an error after the loss raises LeaseLost too, even if Redis would still accept its ack:
    the block may have swallowed the errors of the cancelled jobs.
    """
    with tagged_jobs(spark) as cancel:
        watch = LossWatch(held, cancel, exit_driver=policy.exit_driver)
        try:
            yield watch
        except Exception as error:
            if not isinstance(error, LeaseLost) and (lost := watch.gone()):
                raise LeaseLost(lost.id) from error
            raise
        finally:
            watch.close()
    if watch.lost:
        watch.check()


def _traced(policy: BatchPolicy, queue: LeasedQueue) -> LeasedQueue:
    return traced(queue) if policy.traced else queue


def _settings(redis: RedisSettings | str) -> RedisSettings:
    if isinstance(redis, str):
        return RedisSettings.from_url(redis)
    if isinstance(redis, RedisSettings):
        return redis
    raise ConfigurationError(f"redis must be a URL or RedisSettings, not {type(redis).__name__}: executors connect too")
