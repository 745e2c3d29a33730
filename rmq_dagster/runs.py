"""What a run means to a lease: the id under which it claims, the owner it claims as, and whether it will come back.

The id names the work and so survives retries: root run, step, partition. The owner names the attempt: the run.
"""

from __future__ import annotations

from typing import TypeAlias

import dagster as dg
from dagster._core.events import RunFailureReason  # no public name says whether Dagster will retry a run
from dagster._core.execution.retries import auto_reexecution_should_retry_run

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


def retry_delay(context: StepContext) -> float | None:
    """Seconds until Dagster runs this step again after a failure, or None when this attempt is the last one."""
    policy = context.get_step_execution_context().op_retry_policy
    if policy and context.retry_number < policy.max_retries:
        return float(policy.calculate_delay(context.retry_number + 1))
    return 0.0 if _run_will_be_retried(context) else None


def _run_will_be_retried(context: StepContext) -> bool:
    instance = context.instance
    failed = context.run.with_status(dg.DagsterRunStatus.FAILURE)
    return instance.run_retries_enabled and bool(
        auto_reexecution_should_retry_run(instance, failed, RunFailureReason.STEP_FAILURE)
    )
