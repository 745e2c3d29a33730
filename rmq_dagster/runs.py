"""What a run means to a lease: the id under which it claims, the owner it claims as, and whether it will come back.

The id names the work and so survives retries: root run, step, partition. The owner names the attempt: the run.
"""

from __future__ import annotations

from typing import TypeAlias

import dagster as dg
from dagster._core.events import RunFailureReason  # no public name says whether Dagster will retry a run
from dagster._core.execution.retries import auto_reexecution_should_retry_run

from rmq_dagster.tags import WILL_RETRY

StepContext: TypeAlias = dg.AssetExecutionContext | dg.OpExecutionContext


def lease_id(context: StepContext) -> str:
    """`<root run>/<step>[/<partition>]`: a retry of the step or of the run claims the same messages again."""
    parts = [context.run.root_run_id or context.run.run_id, context.get_step_execution_context().step.key]
    if context.has_partition_key:
        parts.append(context.partition_key)
    elif context.has_partition_key_range:
        parts.append(f"{context.partition_key_range.start}...{context.partition_key_range.end}")
    return "/".join(parts)


def owner(context: StepContext) -> str:
    """The run id: what a late settle of a failed run compares, so that it cannot hurt the retry that lives."""
    return context.run.run_id


def retry_delay(context: StepContext, error: Exception | None = None) -> float | None:
    """Seconds until Dagster runs this step again after `error`, or None when this attempt is the last one."""
    if isinstance(error, dg.RetryRequested):
        if context.retry_number < error.max_retries:
            return float(error.seconds_to_wait or 0)
    elif not (isinstance(error, dg.Failure) and not error.allow_retries):
        policy = context.get_step_execution_context().op_retry_policy
        if policy and context.retry_number < policy.max_retries:
            return float(policy.calculate_delay(context.retry_number + 1))
    failed = context.run.with_status(dg.DagsterRunStatus.FAILURE)
    return 0.0 if will_be_retried(context.instance, failed, RunFailureReason.STEP_FAILURE) else None


def will_be_retried(
    instance: dg.DagsterInstance, failed: dg.DagsterRun, reason: RunFailureReason | None = None
) -> bool:
    """Whether Dagster will retry a failed run. Its own verdict, a tag, appears a moment after the failure itself."""
    verdict = failed.tags.get(WILL_RETRY)
    if verdict is not None:
        return verdict == "true"
    return instance.run_retries_enabled and bool(auto_reexecution_should_retry_run(instance, failed, reason))
