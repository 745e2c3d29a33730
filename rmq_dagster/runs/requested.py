"""The runs that a sensor requested, and the claims that it holds for them until they start. Every tick maintains them.

A claim must not expire while its run waits in Dagster's queue: that would count a delivery although no run received the
messages. A claim that no run will ever take must not wait for its expiry, which may be an hour away.

A claim is named `<sensor>@<repository>@<code location>/<number>`; its owner is the part before the number. Repository
and code location are included because other code locations may have a sensor of the same name on the same queue.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import dagster as dg

from rmq_core import LeaseAlreadySettled, LeasedConfig, LeasedQueue, LeaseLost
from rmq_core.reports import LeaseInfo
from rmq_dagster.names import lease_name
from rmq_dagster.runs.identity import CLAIMED, FENCE, LEASE, PARTITION, QUEUE, REPOSITORY, RUN_KEY, SENSOR, TICK

WAITING = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.QUEUED)
LEASES_LOOKED_AT = 1000
RunOf = Callable[[str], dg.DagsterRun | None]


@dataclasses.dataclass(frozen=True)
class SensorClaims:
    """The claims of one sensor. `repository`: the label of the place where it is defined; None for a tick by hand."""

    sensor: str
    repository: str | None
    claim_for_s: float

    @property
    def owner(self) -> str:
        """Return the owner of the claims until a run takes them over."""
        return lease_name(f"{self.sensor}@{self.repository}") if self.repository else self.sensor

    def lease_id(self, number: int) -> str:
        """Return the id of the lease that a tick claims for one request."""
        return f"{self.owner}/{number}"

    def has_named(self, lease: LeaseInfo) -> bool:
        """Return whether a tick of this sensor claimed the lease, no matter which run holds it now."""
        return number_of(lease.id) > 0 and owner_before(lease.id) == self.owner

    def claim(self, queue: LeasedQueue, number: int, batch: int, groups: Collection[str] | None) -> bool:
        """Claim under a name derived from the request number, so that a repeated tick finds its own lease again.

        groups: only messages of these are claimed. Return False when no message was left, or a run has the lease.
        """
        lease_id = self.lease_id(number)
        info = queue.lease_info(lease_id)
        if queue.settled(lease_id) or (info and info.owner != self.owner):
            return False
        terms = {"lease": self.claim_for_s, "lease_id": lease_id, "owner": self.owner, "groups": groups}
        return queue.claim(max_messages=batch, **terms) is not None  # type: ignore[arg-type]

    def look_after(self, queue: LeasedQueue, run_of: RunOf, *, last: int) -> None:
        """Extend the claims whose runs wait, and release, with no delivery counted, those that no run will take.

        `run_of`: returns the latest run that was requested for a lease. `last`: the number of the last request that
        Dagster knows; a claim with a higher number was made by a tick that Dagster abandoned. Every other claim is left
        to the run that is about to take it, or to its expiry: a run whose worker died may show as started for ever.
        """
        for lease in queue.admin.leases(limit=LEASES_LOOKED_AT):
            if lease.owner == self.owner:
                self._look_after(queue, lease, run_of(lease.id), last)

    def _look_after(self, queue: LeasedQueue, lease: LeaseInfo, run: dg.DagsterRun | None, last: int) -> None:
        forsaken = run.is_finished if run else number_of(lease.id) > last
        if not forsaken and not (run and run.status in WAITING):
            return
        with suppress(LeaseLost, LeaseAlreadySettled):  # a run has it by now
            # Adopting under the same owner counts no delivery.
            held = queue.adopt(lease.id, if_owner=lease.owner, lease=self.claim_for_s)
            if forsaken:
                queue.release(held)


def number_of(lease_id: str) -> int:
    """Return the number of the request for which a lease was taken; 0 for any other lease."""
    number = lease_id.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def owner_before(lease_id: str) -> str:
    """Return the owner of a lease that a sensor claimed for a run, until that run takes it over."""
    return lease_id.rpartition("/")[0]


UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
RUNS_LOOKED_AT = 1000


class EndedInVain(NamedTuple):
    """Runs that were requested for work and ended, while nothing was claimed. run_id: the one that ended last."""

    requests: int
    run_id: str
    seconds_ago: float


@dataclasses.dataclass(frozen=True)
class RequestedRuns:
    """The runs of one sensor. `sensor`: its name; None, for a tick by hand, selects all runs of the queue.

    `repository`: the label of the place where the sensor is defined, because other code locations may have sensors and
    queues of the same names. `queue`: the only one that it requests runs for; None when there are several.
    """

    sensor: str | None
    repository: str | None = None
    queue: str | None = None

    def unclaimed(self, instance: dg.DagsterInstance, redis: Any, config: LeasedConfig) -> list[dg.RunRecord]:
        """Return the unfinished runs that neither hold a lease nor have claimed one before."""
        records = self.unfinished(instance)
        unclaimed = [record for record in records if CLAIMED not in record.dagster_run.tags]
        names = queues_of(unclaimed)
        owners = {owner for name in names for owner in _owners(redis, name, config)}
        return [record for record in unclaimed if record.dagster_run.run_id not in owners]

    def unfinished(self, instance: dg.DagsterInstance) -> Sequence[dg.RunRecord]:
        """Return the runs that wait or work. The query filters by status too: by tag alone it takes 1 s in SQLite."""
        return instance.get_run_records(self._filter(statuses=UNFINISHED), limit=RUNS_LOOKED_AT)

    def in_vain(self, instance: dg.DagsterInstance, fences: Sequence[str]) -> dict[str, EndedInVain]:
        """Return the runs that ended without a claim, by their tag FENCE: after a claim, runs get another value."""
        found: dict[str, list[dg.RunRecord]] = {}
        # The query has this tag alone, because it selects few runs; with that of the sensor it takes 0.3 s in SQLite.
        tags = dg.RunsFilter(tags={FENCE: list(fences)}, statuses=FINISHED)
        for record in instance.get_run_records(tags, limit=RUNS_LOOKED_AT) if fences else ():
            if self._own_tags.items() <= record.dagster_run.tags.items():
                found.setdefault(record.dagster_run.tags[FENCE], []).append(record)
        return {fence: _in_vain(records) for fence, records in found.items()}

    def latest_of(self, instance: dg.DagsterInstance, lease_id: str) -> dg.DagsterRun | None:
        """Return the latest run that was requested for a lease that a tick has claimed."""
        tags = {**self._own_tags, LEASE: lease_id}
        return next(iter(instance.get_runs(dg.RunsFilter(tags=tags), limit=1)), None)

    def last_number(self, context: dg.SensorEvaluationContext) -> int:
        """Return the number of the last request: from the cursor, or, when it was reset, from the runs themselves.

        Starting over at 1 would repeat run keys, and Dagster skips every request whose key it has seen.
        """
        if context.cursor and context.cursor.isdecimal():
            return int(context.cursor)
        runs = context.instance.get_runs(self._filter(), limit=RUNS_LOOKED_AT)
        numbers = [run.tags.get(RUN_KEY, "").rpartition(":")[2] for run in runs]
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def _filter(self, **filters: Any) -> dg.RunsFilter:
        queue = {QUEUE: self.queue} if self.queue else {}
        return dg.RunsFilter(tags={**self._own_tags, **queue}, **filters)

    @property
    def _own_tags(self) -> dict[str, str]:
        """Return the tags that Dagster gives the runs of this sensor."""
        given = {SENSOR: self.sensor, REPOSITORY: self.repository}
        return {tag: value for tag, value in given.items() if value}


def fence_tag(queue: str, fence: int | None) -> str:
    """Return the tag of the runs that are requested for a queue until something of it is claimed again."""
    return f"{queue}@{fence or 0}"


def _in_vain(records: Sequence[dg.RunRecord]) -> EndedInVain:
    """Summarize ended runs, which are never empty; those of one tick are one request."""
    ticks = {record.dagster_run.tags.get(TICK, record.dagster_run.run_id) for record in records}
    moment, run_id = max((_aware(record.update_timestamp), record.dagster_run.run_id) for record in records)
    return EndedInVain(len(ticks), run_id, (dt.datetime.now(dt.UTC) - moment).total_seconds())


def queues_of(records: Sequence[dg.RunRecord]) -> set[str]:
    """Return the queues for which these runs were requested."""
    return {name for record in records if (name := record.dagster_run.tags.get(QUEUE))}


def requested_for(queue: str, records: Sequence[dg.RunRecord], partition: str | None = None) -> list[dg.RunRecord]:
    """Return those of the runs that were requested for one queue, or for one partition of it."""
    tags = {QUEUE: queue} | ({} if partition is None else {PARTITION: partition})
    return [record for record in records if tags.items() <= record.dagster_run.tags.items()]


def coming(records: Sequence[dg.RunRecord], seconds: float) -> int:
    """Count the runs that may still claim: those in Dagster's queue, or whose status changed in the last `seconds`."""
    patience, now = dt.timedelta(seconds=seconds), dt.datetime.now(dt.UTC)
    return sum(
        record.dagster_run.status is dg.DagsterRunStatus.QUEUED or now - _aware(record.update_timestamp) < patience
        for record in records
    )


def repository_of(context: dg.SensorEvaluationContext) -> str | None:
    """Return the label that Dagster gives the runs of a sensor's repository; None for a tick by hand."""
    origin = context.code_location_origin
    return f"{context.repository_name}@{origin.location_name}" if origin and context.repository_name else None


def sensor_of(context: dg.SensorEvaluationContext) -> str | None:
    """Return the name of the sensor that ticks; None for a tick by hand without a name."""
    try:
        return context.sensor_name
    except Exception:  # the error that Dagster raises has no public name
        return None


def _owners(redis: Any, name: str, config: LeasedConfig) -> set[str]:
    """Return the owners of the leases of one queue."""
    with LeasedQueue(redis, name, config) as queue:
        return {lease.owner for lease in queue.admin.leases(limit=LEASES_LOOKED_AT)}


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)  # some run storages return naive times
