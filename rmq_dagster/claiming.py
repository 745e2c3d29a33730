"""Claiming in a step. The lease is named after the work, so that a retry of the step or the run finds it again.

Law: a lease is taken over only from an earlier run of the same group, from this one, or from the sensor that claimed it
for this run. The lease of any other owner, such as a later retry or another orchestrator, is left alone, and the step
fails.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import dagster as dg

from rmq_core import ConfigurationError, Lease, LeaseAlreadySettled, LeasedQueue
from rmq_core.work import OnSettled, Relation, claim_as
from rmq_dagster import runs
from rmq_dagster.claims import owner_before
from rmq_dagster.console_link import page_of
from rmq_dagster.tags import CLAIMED, ISOLATED, LEASE, QUEUE

LARGEST_BATCH = 1_000_000


def claim(
    context: runs.StepContext,
    queue: LeasedQueue,
    *,
    max_messages: int,
    on_settled: OnSettled = "skip",
    sequential: bool = False,
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
        StepClaimant(context, given or runs.lease_id(context)),
        queue,
        max_messages=max_messages,
        on_settled=on_settled,
        sequential=sequential,
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

    context: runs.StepContext
    lease_id: str

    @property
    def owner(self) -> str:
        """Return the owner: the run."""
        return runs.owner(self.context)

    def relation(self, owner: str) -> Relation:
        """Return how `owner` relates to this step."""
        ours = owner == owner_before(self.lease_id) or runs.follows(self.context, owner)
        return Relation.OURS if ours else Relation.FOREIGN


def _refuse_interrupted(context: runs.StepContext) -> None:
    """Raise dg.Failure if the step was interrupted: Dagster may retry it although its run or process is stopping."""
    if runs.is_interrupted(context):
        raise dg.Failure(
            "The run was cancelled or deleted, or its process was told to stop; nothing was claimed.",
            allow_retries=False,
        )


def _attempt(context: runs.StepContext, queue: LeasedQueue) -> tuple[str, str, int, str]:
    key = context.get_step_execution_context().step.key
    return context.run.run_id, key, context.retry_number, queue.name


_worked: set[tuple[str, str, int, str]] = set()
"""The attempts of steps that have claimed in this process, and from which queue."""


def _check_settled(
    context: runs.StepContext, queue: LeasedQueue, settled: LeaseAlreadySettled, on_settled: OnSettled
) -> None:
    if on_settled == "skip" and _attempt(context, queue) in _worked:
        # An empty batch would end a loop over batches after the first one, in success.
        raise ConfigurationError(
            f"this step has acked a batch of {queue.name!r} already, and a further claim needs a name of its own: pass"
            " on_settled='next' to every claim of the loop, so that a retry skips the batches that are acked"
        ) from settled
    _refuse_lost_result(context, settled)


def _refuse_lost_result(context: runs.StepContext, settled: LeaseAlreadySettled) -> None:
    if runs.result_was_lost(context):
        raise dg.Failure(
            f"An earlier try acked {settled.acked} message(s) of {settled.lease_id!r} and then failed to store its"
            " result; this try would store one without these messages instead. `yield` results inside the block, so"
            " that they are stored before the ack; to work on the next messages, launch a new run, not a re-execution.",
            allow_retries=False,
        ) from settled


def shortened(lease: Lease, asked: int) -> dict[str, Any]:
    """Return metadata that states why isolation shortened a claim; empty if it did not."""
    return {} if lease.isolation is None else {"rmq/asked": asked, "rmq/isolated": str(lease.isolation)}


def _report(context: runs.StepContext, queue: LeasedQueue, lease: Lease | None, asked: int) -> None:
    if context.run.tags.get(QUEUE, queue.name) == queue.name:  # else the run was requested for another queue
        context.instance.add_run_tags(context.run.run_id, _tags(context, lease))
    page = lease and page_of(queue.name, lease.id)
    where = f"{queue.name!r}: {page}" if page else f"{queue.name!r}"
    context.log.info("Claimed %d message(s) of %s", lease.count if lease else 0, where)
    if lease and lease.isolation:
        context.log.warning("got %d of %d: %s", lease.count, asked, lease.isolation)


def _tags(context: runs.StepContext, lease: Lease | None) -> dict[str, str]:
    """Return tags with the total that the run has claimed, because several of its steps may claim."""
    run = context.instance.get_run_by_id(context.run.run_id)
    before = int(run.tags.get(CLAIMED, 0)) if run else 0
    if lease is None:
        return {CLAIMED: str(before)}
    claimed = max(before, lease.count) if lease.takeovers else before + lease.count
    return {CLAIMED: str(claimed)} | ({ISOLATED: "true"} if lease.isolation else {})
