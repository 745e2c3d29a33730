"""Claiming in a step, the batch that it works on, and its end. The lease is named after the work: a retry finds it.

Law: a lease is taken over only from an earlier run of the same group, from this one, or from the sensor that claimed it
for this run. The lease of any other owner, such as a later retry or another orchestrator, is left alone, and the step
fails.

The lease of a failed step is kept while Dagster will retry, and nacked after the last attempt. It is released when the
run or the process of the step is terminated, by Dagster's "Terminate" or by SIGTERM: that is no failure. Every other
error that ends a step counts as a failure: `sys.exit`, too, and the end of a run that exceeded its maximum runtime,
which may be due to a message.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import dagster as dg

from rmq_core import Batch, ConfigurationError, Lease, LeaseAlreadySettled, LeasedConfig, LeasedQueue
from rmq_core.orchestrate import (
    OnSettled,
    Relation,
    Settleable,
    check_on_settled,
    chosen_groups,
    claim_as,
    conclude,
)
from rmq_core.reports import LeaseInfo
from rmq_dagster.names import console_link, page_of
from rmq_dagster.runs import identity
from rmq_dagster.runs.identity import CLAIMED, ISOLATED, LEASE, QUEUE
from rmq_dagster.runs.requested import owner_before

LARGEST_BATCH = 1_000_000


def claim(
    context: identity.StepContext,
    queue: LeasedQueue,
    *,
    max_messages: int,
    on_settled: OnSettled = "skip",
    sequential: bool = False,
    groups: Collection[str] | None = None,
) -> Lease | None:
    """Take over the lease of an earlier attempt of this step, else claim new messages; None when nothing is ready.

    `on_settled`: when all messages of the step's lease are acked already, "skip" raises LeaseAlreadySettled and "next"
    claims more, under `<name>#2`, `#3`, ... If an earlier attempt acked and then failed to store its result,
    this attempt would store a result without those messages in its place: dg.Failure is raised and allows no retries.
    Raises ConfigurationError when this attempt itself acked them, and "skip" would end its loop over batches.
    Raises LeaseOwnedByOther when the lease of that name has another owner.
    """
    _refuse_interrupted(context)
    page_of(queue.name)  # a wrong address must fail before the claim
    tags = context.run.tags
    given = tags.get(LEASE) if tags.get(QUEUE) == queue.name else None  # set by a claiming sensor
    lease = claim_as(
        StepClaimant(context, given or identity.lease_id(context)),
        queue,
        max_messages=max_messages,
        on_settled=on_settled,
        sequential=sequential,
        groups=groups,
        check_settled=lambda settled, _: _check_settled(context, queue, settled, on_settled),
    ).lease
    if lease is not None:
        _worked.add(_attempt(context, queue))
    _report(context, queue, lease, max_messages)
    return lease


def check_batch(parameter: str, messages: int) -> None:
    """Raise ConfigurationError for a batch size that is out of range for one run."""
    if type(messages) is not int or not 1 <= messages <= LARGEST_BATCH:  # not isinstance: True is an int
        raise ConfigurationError(
            f"{parameter} must be an integer from 1 to {LARGEST_BATCH:,}, not {messages!r}: it is the"
            " number of messages that one run claims"
        )


@dataclasses.dataclass(frozen=True)
class StepClaimant:
    """A step in the form that the core's `claim_as` expects."""

    context: identity.StepContext
    lease_id: str

    @property
    def owner(self) -> str:
        """Return the owner: the run."""
        return identity.owner(self.context)

    def relation(self, owner: str) -> Relation:
        """Return how `owner` relates to this step."""
        ours = owner == owner_before(self.lease_id) or identity.follows(self.context, owner)
        return Relation.OURS if ours else Relation.FOREIGN


def _refuse_interrupted(context: identity.StepContext) -> None:
    """Raise dg.Failure if the step was interrupted: Dagster may retry it although its run or process is stopping."""
    if identity.is_interrupted(context):
        raise dg.Failure(
            "The run was cancelled or deleted, or its process was told to stop; nothing was claimed.",
            allow_retries=False,
        )


def _attempt(context: identity.StepContext, queue: LeasedQueue) -> tuple[str, str, int, str]:
    key = context.get_step_execution_context().step.key
    return context.run.run_id, key, context.retry_number, queue.name


_worked: set[tuple[str, str, int, str]] = set()
"""The attempts of steps that have claimed in this process, and from which queue."""


def _check_settled(
    context: identity.StepContext, queue: LeasedQueue, settled: LeaseAlreadySettled, on_settled: OnSettled
) -> None:
    if on_settled == "skip" and _attempt(context, queue) in _worked:
        # An empty batch would end a loop over batches after the first one, in success.
        raise ConfigurationError(
            f"this step has acked a batch of {queue.name!r} already, and a further claim needs a name of its own: pass"
            " on_settled='next' to every claim of the loop, so that a retry skips the batches that are acked"
        ) from settled
    if identity.result_was_lost(context):
        raise dg.Failure(
            f"An earlier try acked {settled.acked} message(s) of {settled.lease_id!r} and then failed to store its"
            " result; this try would store one without these messages instead. `yield` results inside the block, so"
            " that they are stored before the ack; to work on the next messages, launch a new run, not a re-execution.",
            allow_retries=False,
        ) from settled


def shortened(lease: Lease, asked: int) -> dict[str, Any]:
    """Return metadata that states why isolation shortened a claim; empty if it did not."""
    return {} if lease.isolation is None else {"rmq/asked": asked, "rmq/isolated": str(lease.isolation)}


def _report(context: identity.StepContext, queue: LeasedQueue, lease: Lease | None, asked: int) -> None:
    if context.run.tags.get(QUEUE, queue.name) == queue.name:  # else the run was requested for another queue
        context.instance.add_run_tags(context.run.run_id, _tags(context, lease))
    page = lease and page_of(queue.name, lease.id)
    where = f"{queue.name!r}: {page}" if page else f"{queue.name!r}"
    context.log.info("Claimed %d message(s) of %s", lease.count if lease else 0, where)
    if lease and lease.isolation:
        context.log.warning("got %d of %d: %s", lease.count, asked, lease.isolation)


def _tags(context: identity.StepContext, lease: Lease | None) -> dict[str, str]:
    """Return tags with the total that the run has claimed, because several of its steps may claim."""
    run = context.instance.get_run_by_id(context.run.run_id)
    before = int(run.tags.get(CLAIMED, 0)) if run else 0
    if lease is None:
        return {CLAIMED: str(before)}
    claimed = max(before, lease.count) if lease.takeovers else before + lease.count
    return {CLAIMED: str(claimed)} | ({ISOLATED: "true"} if lease.isolation else {})


RETRY_MARGIN_S = 600  # a retry waits for a daemon, a slot and a process before it claims
CLOSING_S = 5  # settling takes milliseconds, unless the closed step holds a lock
CLOCKS_S = 30  # how far the clocks of this machine and of Redis may be apart


def kept_s(config: LeasedConfig, delay_s: float) -> float:
    """Return how long to keep a lease for a retry: longer than a heartbeat extends it, so that `is_kept` detects it."""
    return delay_s + RETRY_MARGIN_S + _lease_s(config)


def is_kept(lease: LeaseInfo, config: LeasedConfig) -> bool:
    """Return whether a lease is kept for a retry and not in use: its deadline is later than a heartbeat sets it.

    Return False for a kept lease that is close to its deadline.
    """
    return lease.deadline is not None and lease.deadline.timestamp() - time.time() > _lease_s(config) + CLOCKS_S


def _lease_s(config: LeasedConfig) -> float:
    return float(config.lease_ms) / 1000 if config.lease is not None else 0.0


@contextmanager
def concluding(context: identity.StepContext, held: Settleable, config: LeasedConfig) -> Iterator[None]:
    """Settle or keep the lease when the block fails, then raise the block's error.

    Raise the same error if Redis is unreachable; the lease then expires.
    """
    try:
        yield
    except GeneratorExit as closed:
        # The garbage collector closes the generator of a step at any point, even while this thread writes to Dagster's
        # event log and holds its lock. Another thread can wait for that lock; this one would wait for itself.
        settling = threading.Thread(target=_report_end, args=(context, held, config, closed), name="rmq-conclude")
        settling.start()
        settling.join(CLOSING_S)
        raise
    except BaseException as error:
        _report_end(context, held, config, error)
        raise


def _report_end(context: identity.StepContext, held: Settleable, config: LeasedConfig, error: BaseException) -> None:
    context.log.info("The lease %r is %s", held.lease.id, _conclude(context, held, config, error))


def _conclude(context: identity.StepContext, held: Settleable, config: LeasedConfig, raised: BaseException) -> str:
    # A separate function: a variable that holds the error after its except block would create a reference cycle and
    # so keep the failed step in memory.
    error = identity.failure_of(context, raised)
    ended = identity.is_interrupted(context, error)
    if ended and identity.timed_out(context.instance, context.run.run_id):
        delay, reason, ended = identity.run_retry_delay(context), "the run exceeded its maximum runtime", False
    else:
        delay, reason = None if ended else identity.retry_delay(context, error), _reason(error)
    keep_s = None if delay is None else kept_s(config, delay)
    how = conclude(held, reason, keep_s=keep_s, retried=delay is not None, blameless=ended)
    return f"{how}: the run, or its process, was ended" if ended else how


def _reason(error: BaseException) -> str:
    if isinstance(error, GeneratorExit):
        return "the result could not be stored"
    if isinstance(error, dg.RetryRequested) and error.__cause__:
        error = error.__cause__  # the error for which Dagster's policy, or the step, requested a retry
    text = str(error)
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


class ClaimedBatch(Batch):
    """A Batch of a step, with metadata for its result; empty, and false, when nothing was ready.

    Messages that are neither acked, nacked nor released in the block are acked when it ends. When it raises they are
    nacked, unless Dagster will retry: then the retry takes them over. `acked_before`: how many messages an earlier run
    of this step acked. `asked`: the maximum that the step requested.
    """

    def __init__(
        self, queue: LeasedQueue, lease: Lease | None, acked_before: int | None = None, *, asked: int = 0
    ) -> None:
        super().__init__(queue, lease)
        self._started = time.monotonic()
        self.acked_before, self.asked = acked_before, asked

    @property
    def metadata(self) -> dict[str, Any]:
        """Return metadata for the step's result: queue, lease, count, seconds held, why isolation shortened a claim.

        With `RMQ_CONSOLE`, `rmq/console` and `rmq/lease` link to queue and lease in the console of `rmq serve`.
        """
        links = console_link(self.queue.name, None if self._lease is None else self._lease.id)
        values: dict[str, Any] = {"rmq/queue": self.queue.name, "rmq/claimed": len(self), **links}
        if self._lease is not None:
            values |= {"rmq/lease_id": self._lease.id, "rmq/seconds": round(time.monotonic() - self._started, 3)}
            values |= shortened(self._lease, self.asked)
        return values | ({} if self.acked_before is None else {"rmq/acked_before": self.acked_before})


B = TypeVar("B", bound=ClaimedBatch)


@dataclass(frozen=True, slots=True)
class Terms:
    """How many messages a step claims, and how it proceeds when all messages of its lease are acked already.

    sequential: it settles each message before it begins the next, so that a kill is blamed on one message. groups: only
    messages of these groups are claimed.
    """

    max_messages: int = 1000
    on_settled: OnSettled = "skip"
    sequential: bool = False
    groups: Collection[str] | None = None

    def __post_init__(self) -> None:
        check_batch("max_messages", self.max_messages)
        check_on_settled(self.on_settled)
        if self.groups is not None:
            chosen_groups(self.groups)


@contextmanager
def working(context: identity.StepContext, queue: LeasedQueue, terms: Terms) -> Iterator[ClaimedBatch]:
    """Claim, send heartbeats while the block runs, and settle according to how it ends."""
    with _alone(context, queue):
        batch = claimed(context, queue, terms, ClaimedBatch)
        if not batch:
            yield batch
            return
        with concluding(context, batch, queue.config), queue.hold(batch.lease):
            yield batch
            batch.finish()


@contextmanager
def _alone(context: identity.StepContext, queue: LeasedQueue) -> Iterator[None]:
    """Raise ConfigurationError inside another block of this step and queue, whose lease the claim would take over."""
    attempt = _attempt(context, queue)
    if attempt in _open:
        raise ConfigurationError(
            f"this step is in a block that claimed from {queue.name!r}: end that one before the next, or claim more"
            " messages at once and share them among threads"
        )
    _open.add(attempt)
    try:
        yield
    finally:
        _open.discard(attempt)


_open: set[tuple[str, str, int, str]] = set()


def claimed(context: identity.StepContext, queue: LeasedQueue, terms: Terms, kind: type[B]) -> B:
    """Return the batch of a step; an empty one when nothing is ready or its messages were acked before."""
    try:
        lease = claim(context, queue, **dataclasses.asdict(terms))
    except LeaseAlreadySettled as settled:
        context.log.info("All messages of lease %r were acked before: %d message(s)", settled.lease_id, settled.acked)
        return kind(queue, None, settled.acked, asked=terms.max_messages)
    return kind(queue, lease, asked=terms.max_messages)
