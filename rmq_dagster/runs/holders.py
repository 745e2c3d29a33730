"""Find ended runs, settle their leases, and free their slots in pools.

A lease kept for a retry is settled once no retry will come. If a run is terminated or deleted between attempts, no
process is left to release its lease, and deletion emits no event; so sensor ticks and `rmq doctor` check lease owners
against Dagster's records. Runs that may still settle or be retried, and owners that are not run ids, are left alone.

Law: what people do, a termination, a deletion, counts no delivery. Any other end, or one of which nothing is known,
counts as a failed delivery, all tries under one lease as one: a message may have caused it, and only counting ends
a crash loop.

A worker that is killed keeps its slot of a pool, and the steps of the pool wait. Dagster frees the slots of ended runs
only if `run_monitoring.free_slots_after_run_end_seconds` is set, and it has no default. So the status sensors free
those of the runs that they settle; ticks and `rmq doctor` warn.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import dagster as dg

from rmq_core import LeaseAlreadySettled, LeasedQueue, LeaseLost
from rmq_core.reports import LeaseInfo
from rmq_dagster.runs import identity
from rmq_dagster.runs.claiming import is_kept
from rmq_dagster.runs.identity import AUTO_RETRY, ROOT
from rmq_dagster.runs.requested import LEASES_LOOKED_AT

SETTLING_S = 5  # grace time for a finished run to settle
_log = logging.getLogger(__name__)


class RunEnding(NamedTuple):
    """How an owner's run ended. failed: expire its leases, which counts a delivery; else release them.

    known: Dagster has a record of the run; if not, it was deleted or belongs to another Dagster.
    """

    reason: str
    failed: bool = False
    known: bool = True


UNKNOWN = RunEnding("no such run: it was deleted, or belongs to another Dagster instance", known=False)


def ended(owners: Collection[str]) -> Mapping[str, tuple[str, bool]]:
    """Return, by owner, why each ended owner has ended, and whether it failed; `rmq doctor` calls this entry point.

    Empty if `DAGSTER_HOME` is unset or its instance unreachable.
    """
    if not os.environ.get("DAGSTER_HOME") or not any(map(identity.is_run_id, owners)):
        return {}
    try:
        with dg.DagsterInstance.get() as instance:
            return {owner: (ending.reason, ending.failed) for owner, ending in endings(instance, owners).items()}
    except Exception as error:  # on any storage error, `rmq doctor` continues without Dagster
        _log.warning("Cannot read run statuses from Dagster: %s: %s", type(error).__name__, error)
        return {}


def endings(instance: dg.DagsterInstance, owners: Iterable[str]) -> dict[str, RunEnding]:
    """Return the ending of each owner that has ended. Two queries, plus one for each run being cancelled."""
    ids = [owner for owner in dict.fromkeys(owners) if identity.is_run_id(owner)][:LEASES_LOOKED_AT]
    if not ids:
        return {}
    found = {record.dagster_run.run_id: record for record in instance.get_run_records(dg.RunsFilter(run_ids=ids))}
    retried = _retries(instance, [record.dagster_run for record in found.values()])
    reasons = {owner: _ending(instance, found.get(owner), retried) for owner in ids}
    return {owner: ending for owner, ending in reasons.items() if ending}


def settle_ended(
    instance: dg.DagsterInstance, queues: Collection[LeasedQueue], is_ours: Callable[[LeaseInfo], bool] | None = None
) -> Iterator[str]:
    """Expire leases of ended runs, release those of runs that people ended; yield a log line for each.

    For unknown runs, release only leases kept for a retry: active ones may belong to another Dagster, or to a deleted
    run still executing. `is_ours`: recognises our leases whose ids are not from steps.
    """
    held = [(queue, lease) for queue in queues for lease in queue.admin.leases(limit=LEASES_LOOKED_AT)]
    reasons = endings(instance, (lease.owner for _, lease in held))
    for queue, lease in held:
        ending = reasons.get(lease.owner)
        if ending and (ending.known or (_was_a_runs(lease, is_ours) and is_kept(lease, queue.config))):
            yield settled(queue, lease.id, lease.owner, ending)


def settled(queue: LeasedQueue, lease_id: str, owner: str, ending: RunEnding) -> str:
    """Settle the lease of an ended run if that run still owns it; return a log line."""
    try:
        if ending.failed:
            queue.admin.expire_lease(lease_id, if_owner=owner, reason=ending.reason)
        else:
            queue.admin.release_lease(lease_id, if_owner=owner)
    except (LeaseLost, LeaseAlreadySettled) as gone:
        return f"Lease unchanged: {gone}"
    counted = "a failed delivery was counted" if ending.failed else "no delivery was counted"
    return f"The messages of lease {lease_id!r} are back in {queue.name!r}, {counted}: {ending.reason}."


def failure_of(run: dg.DagsterRun) -> RunEnding:
    """Return the ending of a run that failed for good."""
    return RunEnding(f"run {run.run_id} failed", failed=True)


def canceling(instance: dg.DagsterInstance, run: dg.DagsterRun) -> RunEnding | None:
    """Return the ending of a run being cancelled.

    None while a step executes, which settles its own lease, and for a run that Dagster itself is about to fail.
    """
    if identity.is_working(instance, run.run_id) or identity.timed_out(instance, run.run_id):
        return None
    return RunEnding(f"run {run.run_id} is being canceled")


def canceled(instance: dg.DagsterInstance, run: dg.DagsterRun) -> RunEnding:
    """Return the ending of a cancelled run."""
    if identity.timed_out(instance, run.run_id):
        return RunEnding(f"run {run.run_id} exceeded its maximum runtime", failed=True)
    return RunEnding(f"run {run.run_id} was canceled")


def _ending(
    instance: dg.DagsterInstance, record: dg.RunRecord | None, retried: Mapping[str, Sequence[dg.DagsterRun]]
) -> RunEnding | None:
    if record is None:
        return UNKNOWN
    run = record.dagster_run
    if run.status is dg.DagsterRunStatus.CANCELING:
        return canceling(instance, run)
    has_just_ended = record.end_time is not None and time.time() - record.end_time < SETTLING_S
    if not run.is_finished or has_just_ended:
        return None
    if run.status is dg.DagsterRunStatus.CANCELED:
        return canceled(instance, run)
    if run.status is dg.DagsterRunStatus.SUCCESS:
        return RunEnding(f"run {run.run_id} succeeded without settling it", failed=True)
    return _ending_of_failed(instance, run, retried.get(identity.root(run), ()))


def _ending_of_failed(
    instance: dg.DagsterInstance, run: dg.DagsterRun, retries: Sequence[dg.DagsterRun]
) -> RunEnding | None:
    """Return None while a run of the group may adopt the lease. `retries`: the group's, newest first."""
    if any(not retry.is_finished for retry in retries):
        return None
    last = next(iter(retries), run)
    if last.status is dg.DagsterRunStatus.CANCELED:
        return RunEnding(f"run {last.run_id}, the retry of run {run.run_id}, was canceled")
    if retry_id := last.tags.get(AUTO_RETRY):  # its retry was created but no longer exists
        return RunEnding(f"run {retry_id}, the retry of run {last.run_id}, was deleted")
    if last.status is dg.DagsterRunStatus.FAILURE and identity.will_be_retried(instance, last):
        return None
    return failure_of(run)


def _retries(instance: dg.DagsterInstance, held_by: Iterable[dg.DagsterRun]) -> dict[str, list[dg.DagsterRun]]:
    """Return the re-executions of each failed run's group, by root run id, newest first."""
    roots = sorted({identity.root(run) for run in held_by if run.status is dg.DagsterRunStatus.FAILURE})
    groups: dict[str, list[dg.DagsterRun]] = {root: [] for root in roots}
    for retry in instance.get_runs(dg.RunsFilter(tags={ROOT: roots})) if roots else ():
        if retry.run_id != retry.tags[ROOT]:
            groups[retry.tags[ROOT]].append(retry)
    return groups


def _was_a_runs(lease: LeaseInfo, is_ours: Callable[[LeaseInfo], bool] | None) -> bool:
    """Return whether a lease id has a step's form, `<root run>/<step>`, or a tick of ours made it."""
    root, _, step = lease.id.partition("/")
    return bool(identity.is_run_id(root) and step) or bool(is_ours and is_ours(lease))


SETTING = "run_monitoring.free_slots_after_run_end_seconds"
ADVICE = (
    "set in dagster.yaml: run_monitoring: {enabled: true, free_slots_after_run_end_seconds: 60}; it needs the daemon"
)


def frees_slots(instance: dg.DagsterInstance) -> bool:
    """Return whether Dagster frees the slots of runs that have ended."""
    return bool(instance.run_monitoring_settings.get("free_slots_after_run_end_seconds"))


def free_slots(instance: dg.DagsterInstance, run_id: str) -> int:
    """Free the slots that an ended run still holds; return how many."""
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return 0
    held = run_id in storage.get_concurrency_run_ids()
    freed: Any = storage.free_concurrency_slots_for_run(run_id) if held else 0  # annotated as None, but it counts
    return int(freed or 0)


def pools_of(target: Any) -> set[str]:
    """Return the pools of the steps of a sensor's target; none for a target that is known only by its name."""
    if type(target) in {list, tuple}:  # Dagster's records are tuples, too
        return {pool for each in target for pool in pools_of(each)}
    if isinstance(target, dg.AssetsDefinition):
        return _of_node(target.node_def)
    if isinstance(target, dg.JobDefinition):
        return _of_node(target.graph)
    return _of_node(target)


def _of_node(node: Any) -> set[str]:
    if isinstance(node, dg.OpDefinition):
        return {node.pool} if node.pool else set()
    if isinstance(node, dg.GraphDefinition):
        return {pool for each in node.node_defs for pool in _of_node(each)}
    return set()


def findings() -> Iterator[tuple[str, str]]:
    """Yield each problem of Dagster's settings and how to solve it; `rmq doctor` calls this entry point.

    Yields nothing if `DAGSTER_HOME` is unset.
    """
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as instance:
            yield from _of_instance(instance)


def _of_instance(instance: dg.DagsterInstance) -> Iterator[tuple[str, str]]:
    if not instance.run_monitoring_enabled:
        yield "run monitoring is off: a run whose worker was killed stays STARTED for ever", ADVICE
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return
    pools = storage.get_concurrency_keys()
    if pools and not frees_slots(instance):
        yield f"{SETTING} is not set: a killed worker keeps its slot of a pool for good", ADVICE
    held = {pool: storage.get_concurrency_info(pool).claimed_slots for pool in sorted(pools)}
    owners = {slot.run_id for slots in held.values() for slot in slots}
    active = {run.run_id for run in instance.get_runs(dg.RunsFilter(run_ids=list(owners))) if not run.is_finished}
    for pool, slots in held.items():
        for slot in slots:
            if slot.run_id not in active:
                found = f"pool {pool!r}: step {slot.step_key!r} of run {slot.run_id}, which has ended, holds a slot"
                yield found, "free it on the page of the pool (Deployment, Concurrency), or " + ADVICE
