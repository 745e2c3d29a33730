"""Holders: the runs that hold leases, and which of them have ended.

A lease that was kept for a retry goes back when no retry will come. Whoever ends a run between two tries, by
terminating or deleting it, leaves nobody who could give the lease back, and a deleted run emits no event: so ticks and
`rmq doctor` compare the owners of leases with Dagster's records. A run that may still settle or be retried is left
alone, and so is every owner that cannot be a run.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import dagster as dg

from rmq_core import LeaseAlreadySettled, LeasedQueue, LeaseInfo, LeaseLost
from rmq_dagster import runs
from rmq_dagster.claims import LEASES_LOOKED_AT
from rmq_dagster.ending import is_kept
from rmq_dagster.tags import AUTO_RETRY, ROOT

SETTLING_S = 5  # a run that has only just finished may still be settling
_log = logging.getLogger(__name__)


class RunEnding(NamedTuple):
    """How the run behind an owner ended. failed: its messages are nacked, else released.

    known: Dagster has a record of the run. One that it does not know was deleted, or never was a run of this Dagster.
    """

    reason: str
    failed: bool = False
    known: bool = True


UNKNOWN = RunEnding(
    "Dagster knows no run of this id: its run was deleted, or the holder is no run of this Dagster", known=False
)


def ended(owners: Collection[str]) -> Mapping[str, str]:
    """Why each of these owners is known to work no more; for `rmq doctor`, which finds it as an entry point.

    Nothing where `DAGSTER_HOME` is not set or its instance cannot be reached.
    """
    if not os.environ.get("DAGSTER_HOME") or not any(map(runs.is_run_id, owners)):
        return {}
    try:
        with dg.DagsterInstance.get() as instance:
            return {owner: ending.reason for owner, ending in endings(instance, owners).items()}
    except Exception as error:  # noqa: BLE001 - whatever the storage raises, the doctor goes on without Dagster
        _log.warning("Dagster was not asked whose runs have ended: %s: %s", type(error).__name__, error)
        return {}


def endings(instance: dg.DagsterInstance, owners: Iterable[str]) -> dict[str, RunEnding]:
    """How those of the owners ended that did; two queries, and one more for each run that is being cancelled."""
    ids = [owner for owner in dict.fromkeys(owners) if runs.is_run_id(owner)][:LEASES_LOOKED_AT]
    if not ids:
        return {}
    found = {record.dagster_run.run_id: record for record in instance.get_run_records(dg.RunsFilter(run_ids=ids))}
    retried = _retries(instance, [record.dagster_run for record in found.values()])
    told = {owner: _ending(instance, found.get(owner), retried) for owner in ids}
    return {owner: ending for owner, ending in told.items() if ending}


def settle_ended(
    instance: dg.DagsterInstance, queues: Collection[LeasedQueue], is_ours: Callable[[LeaseInfo], bool] | None = None
) -> Iterator[str]:
    """Release the leases of runs that ended, nack those of runs that failed; yield a sentence for each.

    Of runs that Dagster does not know only what is kept for a retry goes back: another Dagster on the same queue, or a
    run that works on although it was deleted, loses nothing that it works on. `is_ours`: tells a lease of such a run
    by another name than steps give.
    """
    held = [(queue, lease) for queue in queues for lease in queue.leases(limit=LEASES_LOOKED_AT)]
    told = endings(instance, (lease.owner for _, lease in held))
    for queue, lease in held:
        ending = told.get(lease.owner)
        if ending and (ending.known or (_was_a_runs(lease, is_ours) and is_kept(lease, queue.config))):
            yield settled(queue, lease.id, lease.owner, ending)


def settled(queue: LeasedQueue, lease_id: str, owner: str, ending: RunEnding) -> str:
    """Settle a lease of an ended run, unless somebody else owns it by now; what was done, in words."""
    try:
        if ending.failed:
            # Under the same owner this counts no delivery, and whatever is left of the run is fenced off.
            queue.nack(queue.adopt(lease_id, owner=owner, if_owner=owner), reason=ending.reason)
        else:
            queue.release_lease(lease_id, if_owner=owner)
    except (LeaseLost, LeaseAlreadySettled) as gone:
        return f"Nothing was changed: {gone}"
    return f"The messages of lease {lease_id!r} are back in {queue.name!r}: {ending.reason}."


def failure_of(run: dg.DagsterRun) -> RunEnding:
    """How a run ended that failed for good."""
    return RunEnding(f"run {run.run_id} failed", failed=True)


def canceling(instance: dg.DagsterInstance, run: dg.DagsterRun) -> RunEnding | None:
    """How a run ends that is being cancelled; None while a step is at work, which gives back by itself."""
    return None if runs.is_working(instance, run.run_id) else RunEnding(f"run {run.run_id} is being canceled")


def canceled(run: dg.DagsterRun) -> RunEnding:
    """How a run ended that was cancelled."""
    return RunEnding(f"run {run.run_id} was canceled")


def _ending(
    instance: dg.DagsterInstance, record: dg.RunRecord | None, retried: Mapping[str, Sequence[dg.DagsterRun]]
) -> RunEnding | None:
    if record is None:
        return UNKNOWN
    run = record.dagster_run
    if run.status is dg.DagsterRunStatus.CANCELING:
        return canceling(instance, run)
    if not run.is_finished or _has_just_ended(record):
        return None
    if run.status is dg.DagsterRunStatus.CANCELED:
        return canceled(run)
    if run.status is dg.DagsterRunStatus.SUCCESS:
        return RunEnding(f"run {run.run_id} ended without it")
    return _ending_of_failed(instance, run, retried.get(runs.root(run), ()))


def _has_just_ended(record: dg.RunRecord) -> bool:
    return record.end_time is not None and time.time() - record.end_time < SETTLING_S


def _ending_of_failed(
    instance: dg.DagsterInstance, run: dg.DagsterRun, retries: Sequence[dg.DagsterRun]
) -> RunEnding | None:
    """None while a run of the group may take the lease over. `retries`: those of the whole group, the newest first."""
    if any(not retry.is_finished for retry in retries):
        return None
    last = next(iter(retries), run)
    if last.status is dg.DagsterRunStatus.CANCELED:
        return RunEnding(f"run {last.run_id}, the retry of run {run.run_id}, was canceled")
    if retry_id := last.tags.get(AUTO_RETRY):  # its retry was made, and is not among those that there are
        return RunEnding(f"run {retry_id}, the retry of run {last.run_id}, was deleted")
    if last.status is dg.DagsterRunStatus.FAILURE and runs.will_be_retried(instance, last):
        return None
    return failure_of(run)


def _retries(instance: dg.DagsterInstance, held_by: Iterable[dg.DagsterRun]) -> dict[str, list[dg.DagsterRun]]:
    """By its root, the re-executions in the group of each failed run, the newest first."""
    roots = sorted({runs.root(run) for run in held_by if run.status is dg.DagsterRunStatus.FAILURE})
    groups: dict[str, list[dg.DagsterRun]] = {root: [] for root in roots}
    for retry in instance.get_runs(dg.RunsFilter(tags={ROOT: roots})) if roots else ():
        if retry.run_id != retry.tags[ROOT]:
            groups[retry.tags[ROOT]].append(retry)
    return groups


def _was_a_runs(lease: LeaseInfo, is_ours: Callable[[LeaseInfo], bool] | None) -> bool:
    """Whether a lease is named as steps name theirs: `<root run>/<step>`, or as the tick named it that claimed it."""
    root, _, step = lease.id.partition("/")
    return bool(runs.is_run_id(root) and step) or bool(is_ours and is_ours(lease))
