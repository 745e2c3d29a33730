"""The headers that name the Dagster run and step that publish a message; `rmq why` and the console show them."""

from __future__ import annotations

import dagster as dg
from dagster import DagsterInvariantViolationError

from rmq_core.work import PUBLISHERS

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
