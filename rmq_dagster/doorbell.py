"""`Doorbell`: it asks for runs while a queue has work, and never says which work.

A tick only peeks. It claims nothing and names no message, so a tick that times out, a run request that is dropped and a
run that waits an hour in the run queue all cost nothing: the next tick sees what is still ready and rings again. The
run claims whatever is next when it starts; a run that finds nothing left succeeds with `claimed=0`. What runs hold that
have ended goes back first.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any

import dagster as dg

from rmq_core import Backlog, ConfigurationError, LeasedConfig, LeasedQueue, LeaseInfo, queues
from rmq_dagster import claims, holders
from rmq_dagster.claiming import check_batch
from rmq_dagster.partitions import QueuePartitions
from rmq_dagster.tags import CLAIMED, LEASE, QUEUE, REPOSITORY, RUN_KEY, SENSOR

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
RUNS_LOOKED_AT = 1000
LEASES_LOOKED_AT = 1000


def rings(claims: int, on_the_way: int, room: int) -> int:
    """How many runs to request now.

    One for each claim that what is ready takes, less the runs already on their way to make it, and never more than
    there is room for.
    """
    return max(0, min(claims - on_the_way, room))


def dealt(wanted: Mapping[str, int], room: int) -> list[str]:
    """The queues that get a run each, in turns, so that one with a lot of work leaves room for the others."""
    turns = range(max(wanted.values(), default=0))
    return list(islice((queue for turn in turns for queue, runs in wanted.items() if turn < runs), max(0, room)))


@dataclasses.dataclass(frozen=True)
class Doorbell:
    """What one sensor rings for. `patience_s`: a run that has not claimed by then no longer keeps the bell silent.

    `claim_for_s`: seconds that a tick claims for the run it requests; None for the doorbell proper. `repository`: the
    label of where the sensor is defined, for other code locations may have sensors and queues of the same names.
    """

    queue: str | QueuePartitions
    sensor: str
    batch: int
    max_in_flight_runs: int
    patience_s: float
    min_messages: int = 1
    max_age_s: float | None = None
    claim_for_s: float | None = None
    repository: str | None = None

    def __post_init__(self) -> None:
        check_batch("batch", self.batch)
        for parameter in ("max_in_flight_runs", "min_messages"):
            value = getattr(self, parameter)
            if type(value) is not int or value < 1:  # not isinstance: True is an int
                raise ConfigurationError(f"{parameter} must be an integer of at least 1, not {value!r}")
        if self.max_age_s is not None and not self.max_age_s >= 0:
            raise ConfigurationError(f"max_age must be at least 0 s, not {self.max_age_s}")
        if self.claim_for_s is not None and not self.claim_for_s > 0:
            raise ConfigurationError(f"claim_for must be longer than 0 s, not {self.claim_for_s}")
        if not self.queue:
            raise ConfigurationError("queue must name a queue; it is empty")

    def ring(self, context: dg.SensorEvaluationContext, redis: Any, config: LeasedConfig) -> dg.SensorResult:
        """One tick on a redis-py client: peek, count the runs that have yet to claim, and request what is missing."""
        partitions, last = self.partitions(redis), self.last_number(context)
        self.settle_ended(context, redis, config, list(partitions))
        if self.claim_for_s is not None:
            self.look_after_claims(context.instance, redis, config, list(partitions), last)
        backlogs = self.looks(redis, partitions, config)
        if not (enough := self.enough(backlogs)):
            return dg.SensorResult(skip_reason=self.quiet(backlogs))
        pending = self.pending(context.instance, redis, config)
        # Again: what a run has claimed meanwhile is no longer ready, as that run is no longer on its way.
        backlogs = self.looks(redis, enough, config)
        if not (enough := self.enough(backlogs)):
            return dg.SensorResult(skip_reason=self.quiet(backlogs))
        asked = dealt(self.wanted(enough, pending), self.max_in_flight_runs - len(pending))
        numbered = list(self.prepared(redis, asked, config, last + 1))
        if not numbered:
            return dg.SensorResult(skip_reason=self.busy(enough, len(pending)), cursor=str(last + len(asked)))
        return dg.SensorResult(
            run_requests=[self.request(name, number, partitions[name]) for name, number in numbered],
            dynamic_partitions_requests=self.new_partitions(partitions, numbered, context.instance),
            cursor=str(last + len(asked)),
        )

    def partitions(self, redis: Any) -> dict[str, str | None]:
        """The queues to look at, and the partition of each."""
        if isinstance(self.queue, str):
            return {self.queue: None}
        return {**self.queue.among(queues(redis))}

    def settle_ended(
        self, context: dg.SensorEvaluationContext, redis: Any, config: LeasedConfig, names: Sequence[str]
    ) -> None:
        """Give back what runs hold that were cancelled or deleted, nack what runs hold that failed for good."""
        with ExitStack() as opened:
            queues = [opened.enter_context(LeasedQueue(redis, name, config)) for name in names]
            for done in holders.settle_ended(context.instance, queues, self.was_claimed_here):
                context.log.info(done)

    def was_claimed_here(self, lease: LeaseInfo) -> bool:
        """Whether a tick of this sensor claimed it, whoever holds it now."""
        return self.claim_for_s is not None and lease.id == claims.name_of(self.sensor, claims.number_of(lease.id))

    def look_after_claims(
        self, instance: dg.DagsterInstance, redis: Any, config: LeasedConfig, names: Sequence[str], last: int
    ) -> None:
        """Hold what earlier ticks claimed for runs that wait; give back what no run will come for."""

        def run_of(lease_id: str) -> dg.DagsterRun | None:
            tags = {**self.own_tags, LEASE: lease_id}
            return next(iter(instance.get_runs(dg.RunsFilter(tags=tags), limit=1)), None)

        for name in names:
            with LeasedQueue(redis, name, config) as queue:
                claims.look_after(queue, self.sensor, run_of, last=last, claim_for_s=self.claim_for_s or 0)

    def looks(self, redis: Any, names: Iterable[str], config: LeasedConfig) -> dict[str, Backlog]:
        """What is ready in each queue."""
        backlogs = {}
        for name in names:
            with LeasedQueue(redis, name, config) as queue:
                backlogs[name] = queue.backlog()
        return backlogs

    def enough(self, backlogs: Mapping[str, Backlog]) -> dict[str, Backlog]:
        """The queues that have enough work, or some that has waited long enough."""
        return {name: backlog for name, backlog in backlogs.items() if self.rings_for(backlog)}

    def rings_for(self, backlog: Backlog) -> bool:
        """Whether that is enough work, or has waited long enough."""
        aged = self.max_age_s is not None and (backlog.oldest_age or 0) >= self.max_age_s
        return backlog.ready >= self.min_messages or (aged and backlog.ready > 0)

    def wanted(self, enough: Mapping[str, Backlog], pending: Sequence[dg.RunRecord]) -> dict[str, int]:
        """How many runs each queue could use, the one that has waited longest first."""
        by_age = sorted(enough, key=lambda name: -(enough[name].oldest_age or 0))
        return {
            name: rings(enough[name].claims(self.batch), self.on_the_way(of(name, pending)), self.max_in_flight_runs)
            for name in by_age
        }

    def prepared(self, redis: Any, asked: Sequence[str], config: LeasedConfig, first: int) -> Iterator[tuple[str, int]]:
        """Each request's queue and number; a claiming sensor claims for each, and leaves out what finds nothing."""
        for number, name in enumerate(asked, first):
            if self.claim_for_s is None or self.claimed_for_a_run(redis, name, config, number):
                yield name, number

    def claimed_for_a_run(self, redis: Any, name: str, config: LeasedConfig, number: int) -> bool:
        """Claim under a name made of the cursor's number: a tick that is repeated finds its own lease again."""
        lease_id = claims.name_of(self.sensor, number)
        with LeasedQueue(redis, name, config) as queue:
            info = queue.lease_info(lease_id)
            if queue.settled(lease_id) or (info and info.owner != self.sensor):
                return False  # a run has it already
            lease = self.claim_for_s
            return queue.claim(max_messages=self.batch, lease=lease, lease_id=lease_id, owner=self.sensor) is not None

    def request(self, name: str, number: int, partition: str | None) -> dg.RunRequest:
        """A request that names no message. The key only keeps Dagster from starting one request twice."""
        tags = {QUEUE: name} | ({} if self.claim_for_s is None else {LEASE: claims.name_of(self.sensor, number)})
        return dg.RunRequest(run_key=f"{name}:{number}", tags=tags, partition_key=partition)

    def new_partitions(
        self, partitions: Mapping[str, str | None], numbered: Sequence[tuple[str, int]], instance: dg.DagsterInstance
    ) -> list[Any] | None:
        """Partitions that the requests need and Dagster does not know yet."""
        keys = [key for name, _ in numbered if (key := partitions[name]) is not None]
        return None if isinstance(self.queue, str) else self.queue.request(keys, instance) or None

    def quiet(self, backlogs: Mapping[str, Backlog]) -> str:
        """Why nothing was requested: too little is ready."""
        name = repr(self.queue) if isinstance(self.queue, str) else f"{self.queue.prefix}/…"
        ready = sum(backlog.ready for backlog in backlogs.values())
        if not ready:
            return f"Queue {name} has nothing ready."
        age = "" if self.max_age_s is None else f", none of them for {self.max_age_s:g} s"
        return f"Queue {name} has {ready} ready, fewer than min_messages={self.min_messages}{age}."

    def busy(self, enough: Mapping[str, Backlog], pending: int) -> str:
        """Why nothing was requested although something is ready."""
        ready = sum(backlog.ready for backlog in enough.values())
        apart = sum(group.size for backlog in enough.values() for group in backlog.groups)
        isolated = f", {apart} of them tried apart from the others for having failed together" if apart else ""
        return (
            f"Queue {', '.join(map(repr, islice(enough, 3)))} has {ready} ready{isolated}; {pending} run(s) of this"
            f" sensor have yet to claim (max_in_flight_runs={self.max_in_flight_runs})."
        )

    def pending(self, instance: dg.DagsterInstance, redis: Any, config: LeasedConfig) -> list[dg.RunRecord]:
        """The unfinished runs of this sensor that neither hold a lease nor have claimed one before."""
        records = instance.get_run_records(self.runs(statuses=UNFINISHED), limit=RUNS_LOOKED_AT)
        unclaimed = [record for record in records if CLAIMED not in record.dagster_run.tags]
        names = {name for record in unclaimed if (name := record.dagster_run.tags.get(QUEUE))}
        owners = {owner for name in names for owner in self.owners(redis, name, config)}
        return [record for record in unclaimed if record.dagster_run.run_id not in owners]

    def owners(self, redis: Any, name: str, config: LeasedConfig) -> set[str]:
        """Who holds a lease of one queue."""
        with LeasedQueue(redis, name, config) as queue:
            return {lease.owner for lease in queue.leases(limit=LEASES_LOOKED_AT)}

    def on_the_way(self, pending: Sequence[dg.RunRecord]) -> int:
        """How many of `pending` are young enough to believe: a run whose worker died may stay `STARTED` for ever.

        What was claimed for a run is not among what is ready, so then there is nothing to take off.
        """
        if self.claim_for_s is not None:
            return 0
        patience = dt.timedelta(seconds=self.patience_s)
        now = dt.datetime.now(dt.UTC)
        return sum(now - _aware(record.create_timestamp) < patience for record in pending)

    def last_number(self, context: dg.SensorEvaluationContext) -> int:
        """The number of the last request: from the cursor, or, when somebody reset it, from the runs themselves.

        Starting over at 1 would repeat run keys, and Dagster skips every request whose key it has seen.
        """
        if context.cursor and context.cursor.isdecimal():
            return int(context.cursor)
        runs = context.instance.get_runs(self.runs(), limit=RUNS_LOOKED_AT)
        numbers = [run.tags.get(RUN_KEY, "").rpartition(":")[2] for run in runs]
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def runs(self, **filters: Any) -> dg.RunsFilter:
        """The runs of this sensor."""
        queue = {QUEUE: self.queue} if isinstance(self.queue, str) else {}
        return dg.RunsFilter(tags={**self.own_tags, **queue}, **filters)

    @property
    def own_tags(self) -> dict[str, str]:
        """What Dagster tags the runs of this sensor with."""
        return {SENSOR: self.sensor} | ({REPOSITORY: self.repository} if self.repository else {})


def of(queue: str, records: Sequence[dg.RunRecord]) -> list[dg.RunRecord]:
    """Those of the runs that were requested for one queue."""
    return [record for record in records if record.dagster_run.tags.get(QUEUE) == queue]


def repository_of(context: dg.SensorEvaluationContext) -> str | None:
    """The label that Dagster gives the runs of a sensor's repository; None for a tick that is evaluated by hand."""
    origin = context.code_location_origin
    return f"{context.repository_name}@{origin.location_name}" if origin and context.repository_name else None


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)  # run storages differ in which they return
