"""The outbox of a step, and the headers that name the step that publishes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster import DagsterInvariantViolationError

from rmq_core import LeasedQueue
from rmq_core.orchestrate import PUBLISHERS, Outbox, publishing_once
from rmq_dagster.runs import identity

JOB, RUN, STEP = PUBLISHERS["dagster"]


def headers_of(run: dg.DagsterRun | None) -> dict[str, str]:
    """Return the headers of the step that runs in this thread, else those of `run`; none outside of a run.

    Threads that a step starts do not know their step, so the run has to do.
    """
    try:
        context = dg.OpExecutionContext.get()
    except DagsterInvariantViolationError:
        return {} if run is None else {JOB: run.job_name, RUN: run.run_id}
    step = context.get_step_execution_context().step.key
    return {JOB: context.run.job_name, RUN: context.run.run_id, STEP: step}


@contextmanager
def collecting(context: identity.StepContext, queue: LeasedQueue) -> Iterator[Outbox]:
    """Publish what the block staged if it ends without an error, else drop it."""
    step, attempt = identity.lease_id(context), (context.run.run_id, context.retry_number)
    with publishing_once(queue, step, attempt) as outbox:
        yield outbox
    if not outbox.published:
        context.log.info("An earlier try of this step has published to %r; nothing was published again.", queue.name)
