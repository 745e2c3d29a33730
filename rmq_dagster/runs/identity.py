"""Map Dagster runs to leases: lease id, owner, tags, and whether a run will be retried.

The lease id is the work (root run, step, partition) and survives retries; the owner is the attempt (run id).
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError  # no public name for the interrupt
from dagster._core.events import RunFailureReason  # no public name says whether Dagster will retry a run
from dagster._core.execution.retries import auto_reexecution_should_retry_run

from rmq_dagster.names import lease_name

QUEUE: Final = "rmq/queue"
CLAIMED: Final = "rmq/claimed"
"""How many messages the run claimed of the queue it was requested for. Absent until the run has made that claim."""
ISOLATED: Final = "rmq/isolated"
"""Present, and "true": the run got messages that have failed together before and are tried apart from the others."""
FENCE: Final = "rmq/fence"
"""The queue and the fence that it had when the run was requested: the same for all requests until the next claim."""
LEASE: Final = "rmq/lease_id"
"""The lease that a claiming sensor took for the run. It is only a name, which gives its reader no right to settle."""
REDRIVEN: Final = "rmq/redriven"
"""How many dead letters a run moved back to ready."""
PUBLICATION: Final = "rmq/publication"
"""The publication whose end a run was requested for."""

# Dagster's own tags, for which it exports no public names.
SENSOR: Final = "dagster/sensor_name"
REPOSITORY: Final = ".dagster/repository"
TICK: Final = "dagster/tick"
RUN_KEY: Final = "dagster/run_key"
WILL_RETRY: Final = "dagster/will_retry"
AUTO_RETRY: Final = "dagster/auto_retry_run_id"
ROOT: Final = "dagster/root_run_id"
PARTITION: Final = "dagster/partition"
DATA_VERSION: Final = "dagster/data_version"


_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
StepContext: TypeAlias = dg.AssetExecutionContext | dg.OpExecutionContext
STARTS = (dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_RESTARTED)
STOPS = (
    dg.DagsterEventType.STEP_UP_FOR_RETRY,
    dg.DagsterEventType.STEP_SUCCESS,
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.STEP_SKIPPED,
)
CANCELLED = (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED)
TIMED_OUT = "exceeding maximum runtime"
INTERRUPTS = (KeyboardInterrupt, DagsterExecutionInterruptedError)
RESULTS = (dg.DagsterEventType.STEP_OUTPUT, dg.DagsterEventType.STEP_SUCCESS)


def lease_id(context: StepContext) -> str:
    """Return `<root run>/<step>[/<partition>]`: a retry of the step or the run claims the same messages again."""
    parts = [root(context.run), context.get_step_execution_context().step.key]
    if context.has_partition_key:
        parts.append(context.partition_key)
    elif context.has_partition_key_range:
        parts.append(f"{context.partition_key_range.start}...{context.partition_key_range.end}")
    return lease_name("/".join(parts))


def root(run: dg.DagsterRun) -> str:
    """Return the id of the run group's first run, which this run re-executes; its own id if it is the first."""
    return run.root_run_id or run.run_id


def owner(context: StepContext) -> str:
    """Return the run id. It works as a fence: a failed run's late settlement cannot affect its live retry."""
    return context.run.run_id


def follows(context: StepContext, owner: str) -> bool:
    """Return whether this run may adopt `owner`'s lease: it is this run or an earlier one of its group.

    A deleted run also counts: only its own group can use that lease id.
    """
    if owner == context.run.run_id:
        return True
    if not is_run_id(owner):
        return False
    ids = [owner, context.run.run_id]
    found = {
        record.dagster_run.run_id: record for record in context.instance.get_run_records(dg.RunsFilter(run_ids=ids))
    }
    theirs, ours = map(found.get, ids)
    if theirs is None:
        return True
    earlier = ours is None or theirs.storage_id < ours.storage_id
    return earlier and root(theirs.dagster_run) == root(context.run)


def is_run_id(owner: str) -> bool:
    """Return whether an owner has the form of a run id."""
    return _RUN_ID.fullmatch(owner) is not None


def retry_delay(context: StepContext, error: BaseException) -> float | None:
    """Return the seconds until Dagster retries this step after `error`; None if this is the last attempt."""
    delay = None if context.get_step_execution_context().retry_mode.disabled else _step_retry_delay(context, error)
    return run_retry_delay(context, RunFailureReason.STEP_FAILURE) if delay is None else delay


def run_retry_delay(context: StepContext, reason: RunFailureReason = RunFailureReason.RUN_EXCEPTION) -> float | None:
    """Return 0 if Dagster will retry the run once it has failed for this reason; else None."""
    failed = context.run.with_status(dg.DagsterRunStatus.FAILURE)
    return 0.0 if will_be_retried(context.instance, failed, reason) else None


def _step_retry_delay(context: StepContext, error: BaseException) -> float | None:
    if isinstance(error, dg.RetryRequested):
        return float(error.seconds_to_wait or 0) if context.retry_number < error.max_retries else None
    policy = context.get_step_execution_context().op_retry_policy
    if policy is None or not _heeds_policy(error) or context.retry_number >= policy.max_retries:
        return None
    return float(policy.calculate_delay(context.retry_number + 1))


def _heeds_policy(error: BaseException) -> bool:
    """Return whether Dagster applies the step's retry policy to `error`.

    It does not for its own errors and for non-Exceptions (SystemExit). It does for GeneratorExit, which means that
    storing the output failed.
    """
    if isinstance(error, dg.Failure):
        return error.allow_retries
    return isinstance(error, (Exception, GeneratorExit)) and not isinstance(error, dg.DagsterError)


def failure_of(context: StepContext, error: BaseException) -> BaseException:
    """Return the cause of a step failure: if storing fails, a generator sees only GeneratorExit."""
    if isinstance(error, GeneratorExit):
        return context.get_step_execution_context().step_exception or error
    return error


def is_interrupted(context: StepContext, error: BaseException | None = None) -> bool:
    """Return whether the step ends because its run was cancelled or deleted, or its process is stopping.

    In-process, Dagster handles SIGTERM by retrying the step if its policy allows. The interrupt is remembered: a
    stopping process must start nothing.
    """
    if isinstance(error, INTERRUPTS):
        _interrupted.add(context.run.run_id)
    if context.run.run_id in _interrupted:
        return True
    run = context.instance.get_run_by_id(context.run.run_id)
    return run is None or run.status in CANCELLED


def timed_out(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether Dagster's run monitoring, not a person, stopped the run: it exceeded its maximum runtime.

    Only the message of the event says so; an event with another message follows it.
    """
    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.RUN_CANCELING)
    return any(entry.dagster_event and TIMED_OUT in (entry.dagster_event.message or "") for entry in events)


_interrupted: set[str] = set()
"""The runs whose steps were interrupted in this process."""


def is_working(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether any step of the run is executing (not waiting for a retry)."""
    last = {
        event.step_key: event.event_type
        for entry in instance.all_logs(run_id, of_type={*STARTS, *STOPS})
        if (event := entry.dagster_event)
    }
    return any(kind in STARTS for kind in last.values())


def will_be_retried(
    instance: dg.DagsterInstance, failed: dg.DagsterRun, reason: RunFailureReason | None = None
) -> bool:
    """Return whether Dagster will retry a failed run. Dagster sets the deciding tag shortly after the failure."""
    verdict = failed.tags.get(WILL_RETRY)
    if verdict is not None:
        return verdict == "true"
    return instance.run_retries_enabled and bool(auto_reexecution_should_retry_run(instance, failed, reason))


def result_was_lost(context: StepContext) -> bool:
    """Return whether an earlier attempt, in this run or its group, failed while storing its output.

    An attempt that failed earlier, or lost its worker, had no output to overwrite.
    """
    events = _step_events(context, context.run.run_id)
    while events and events.pop() not in STARTS:
        pass  # skip the current attempt
    for run_id in _others_of_the_group(context):
        events += _step_events(context, run_id)
    return dg.DagsterEventType.STEP_OUTPUT in events and dg.DagsterEventType.STEP_SUCCESS not in events


def _step_events(context: StepContext, run_id: str) -> list[dg.DagsterEventType]:
    key = context.get_step_execution_context().step.key
    events = [entry.dagster_event for entry in context.instance.all_logs(run_id, of_type={*STARTS, *RESULTS})]
    return [event.event_type for event in events if event and event.step_key == key]


def _others_of_the_group(context: StepContext) -> set[str]:
    root = context.run.root_run_id
    if root is None:
        return set()
    retries = context.instance.get_runs(dg.RunsFilter(tags={ROOT: root}))
    return {root, *(run.run_id for run in retries)} - {context.run.run_id}
