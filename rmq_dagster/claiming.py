"""Claiming in a step. The lease is named after the work, so that a retry of the step or the run finds it again.

Law: a lease is taken over only from an earlier run of the same group, from this one, or from the sensor that claimed it
for this run. Anybody else, a later retry or another orchestrator, is left alone and the step is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args

import dagster as dg

from rmq_core import ConfigurationError, Lease, LeaseAlreadySettled, LeasedQueue, LeaseOwnedByOther
from rmq_dagster import runs
from rmq_dagster.claims import owner_before
from rmq_dagster.tags import CLAIMED, ISOLATED, LEASE, QUEUE

OnSettled: TypeAlias = Literal["skip", "next"]
LARGEST_BATCH = 1_000_000


def claim(
    context: runs.StepContext, queue: LeasedQueue, *, max_messages: int, on_settled: OnSettled = "skip"
) -> Lease | None:
    """Take over what an earlier try of this step holds, else claim what is next; None when nothing is ready.

    `on_settled`: when everything under the step's name is acked already, "skip" raises LeaseAlreadySettled and "next"
    claims more, under `<name>#2`, `#3`, ... Either would overwrite the result of a try that acked, had its result and
    failed to store it, so then dg.Failure says so, and allows no retries. Raises LeaseOwnedByOther when somebody else
    has the lease of that name.
    """
    _refuse_interrupted(context)
    for number, name in enumerate(_names(context, queue)):
        _refuse_foreign(context, queue, name)
        try:
            lease = queue.claim(max_messages=max_messages, lease_id=name, owner=runs.owner(context))
        except LeaseAlreadySettled as settled:
            if number == 0:
                _refuse_lost_result(context, settled)
            if on_settled == "skip":
                raise
        else:
            _report(context, queue, lease, max_messages)
            return lease
    raise AssertionError("unreachable: the names never end")


def check_batch(parameter: str, messages: int) -> None:
    """ConfigurationError for a batch that one run cannot be meant to work on."""
    if type(messages) is not int or not 1 <= messages <= LARGEST_BATCH:  # not isinstance: True is an int
        raise ConfigurationError(
            f"{parameter} must be an integer from 1 to {LARGEST_BATCH:,}, not {messages!r}: it is what one run claims"
        )


def check_on_settled(on_settled: str) -> None:
    """ConfigurationError for an unknown word."""
    if on_settled not in get_args(OnSettled):
        raise ConfigurationError(f"on_settled must be one of {', '.join(get_args(OnSettled))}, not {on_settled!r}")


def _names(context: runs.StepContext, queue: LeasedQueue) -> Iterator[str]:
    tags = context.run.tags
    given = tags.get(LEASE) if tags.get(QUEUE) == queue.name else None  # by a sensor that claims
    base = given or runs.lease_id(context)
    yield base
    yield from (f"{base}#{number}" for number in itertools.count(2))


def _refuse_foreign(context: runs.StepContext, queue: LeasedQueue, name: str) -> None:
    info = queue.lease_info(name)
    if info is None or info.owner == owner_before(name) or runs.follows(context, info.owner):
        return
    raise LeaseOwnedByOther(
        name,
        f"it is owned by {info.owner!r}, which is neither an earlier run of this group nor its sensor",
    )


def _refuse_interrupted(context: runs.StepContext) -> None:
    """In one process with its run, Dagster answers an interrupt by trying the step again if a policy says so."""
    if runs.is_interrupted(context):
        raise dg.Failure(
            "The run was cancelled or deleted, or its process was told to stop; nothing was claimed.",
            allow_retries=False,
        )


def _refuse_lost_result(context: runs.StepContext, settled: LeaseAlreadySettled) -> None:
    if runs.result_was_lost(context):
        raise dg.Failure(
            f"{settled.acked} message(s) of {settled.lease_id!r} were acked by a try that had its result, and then"
            " failed: to work on nothing now would overwrite that. `yield` results inside the block, so that they are"
            " stored before the ack; launch a new run, not a re-execution, to go on with the next messages.",
            allow_retries=False,
        ) from settled


def shortened(lease: Lease, asked: int) -> dict[str, Any]:
    """For the result of a step: why its claim got fewer messages than it asked for; empty when nothing shortened it."""
    return {} if lease.isolation is None else {"rmq/asked": asked, "rmq/isolated": str(lease.isolation)}


def _report(context: runs.StepContext, queue: LeasedQueue, lease: Lease | None, asked: int) -> None:
    if context.run.tags.get(QUEUE, queue.name) == queue.name:  # else it has yet to claim what it was rung for
        context.instance.add_run_tags(context.run.run_id, _tags(context, lease))
    context.log.info("Claimed %d message(s) of %r", lease.count if lease else 0, queue.name)
    if lease and lease.isolation:
        context.log.warning("got %d of %d: %s", lease.count, asked, lease.isolation)


def _tags(context: runs.StepContext, lease: Lease | None) -> dict[str, str]:
    """How many messages the run has claimed in all, for its steps may claim one piece after the other."""
    run = context.instance.get_run_by_id(context.run.run_id)
    before = int(run.tags.get(CLAIMED, 0)) if run else 0
    if lease is None:
        return {CLAIMED: str(before)}
    claimed = max(before, lease.count) if lease.takeovers else before + lease.count
    return {CLAIMED: str(claimed)} | ({ISOLATED: "true"} if lease.isolation else {})
