"""The doorbell: a sensor that asks for runs while a queue has work, and never says which work.

A tick only peeks. It claims nothing and names no message, so a tick that times out, a run request that is dropped and a
run that waits an hour in the run queue all cost nothing: the next tick sees what is still ready and rings again. The
run claims whatever is next when it starts; a run that finds nothing left succeeds with `claimed=0`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
from collections.abc import Sequence
from typing import Any

import dagster as dg

from rmq_core import Backlog, ConfigurationError, LeasedConfig, LeasedQueue
from rmq_dagster.tags import CLAIMED, QUEUE, RUN_KEY, SENSOR

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
TICK_RETRY_BUDGET_S = 5  # Dagster abandons a tick after 60 s but lets its body run on: end well before that
RUNS_LOOKED_AT = 1000
LEASES_LOOKED_AT = 1000


def rings(ready: int, batch: int, on_the_way: int, room: int) -> int:
    """How many runs to request now.

    Enough for what is ready, less the runs already on their way to claim it, and never more than there is room for.
    """
    return max(0, min(math.ceil(ready / batch) - on_the_way, room))


@dataclasses.dataclass(frozen=True)
class Doorbell:
    """What one sensor rings for. `patience_s`: a run that has not claimed by then no longer keeps the bell silent."""

    queue: str
    sensor: str
    batch: int
    max_in_flight_runs: int
    patience_s: float

    def __post_init__(self) -> None:
        for parameter in ("batch", "max_in_flight_runs"):
            if getattr(self, parameter) < 1:
                raise ConfigurationError(f"{parameter} must be at least 1, not {getattr(self, parameter)}")

    def ring(self, context: dg.SensorEvaluationContext, queue: LeasedQueue) -> dg.SensorResult:
        """One tick: peek, count the runs that have not claimed yet, and request what is missing."""
        backlog = queue.backlog()
        if not backlog.ready:
            return dg.SensorResult(skip_reason=f"Queue {self.queue!r} has nothing ready.")
        pending = self.pending(context.instance, queue)
        wanted = rings(backlog.ready, self.batch, self.on_the_way(pending), self.max_in_flight_runs - len(pending))
        if not wanted:
            return dg.SensorResult(skip_reason=self.reason(backlog, len(pending)))
        first = self.last_number(context) + 1
        numbers = range(first, first + wanted)
        return dg.SensorResult(run_requests=[self.request(n) for n in numbers], cursor=str(numbers[-1]))

    def request(self, number: int) -> dg.RunRequest:
        """A request that names no message. The key only keeps Dagster from starting one request twice."""
        return dg.RunRequest(run_key=f"{self.queue}:{number}", tags={QUEUE: self.queue})

    def reason(self, backlog: Backlog, pending: int) -> str:
        """Why nothing was requested although something is ready."""
        return (
            f"Queue {self.queue!r} has {backlog.ready} ready; {pending} run(s) of this sensor have yet to claim"
            f" (max_in_flight_runs={self.max_in_flight_runs})."
        )

    def pending(self, instance: dg.DagsterInstance, queue: LeasedQueue) -> list[dg.RunRecord]:
        """The unfinished runs of this sensor that neither hold a lease nor have claimed one before."""
        filters = dg.RunsFilter(tags={SENSOR: self.sensor, QUEUE: self.queue}, statuses=UNFINISHED)
        records = instance.get_run_records(filters, limit=RUNS_LOOKED_AT)
        unclaimed = [record for record in records if CLAIMED not in record.dagster_run.tags]
        if not unclaimed:
            return []
        owners = {lease.owner for lease in queue.leases(limit=LEASES_LOOKED_AT)}
        return [record for record in unclaimed if record.dagster_run.run_id not in owners]

    def on_the_way(self, pending: Sequence[dg.RunRecord]) -> int:
        """How many of `pending` are young enough to believe: a run whose worker died may stay `STARTED` for ever."""
        patience = dt.timedelta(seconds=self.patience_s)
        now = dt.datetime.now(dt.UTC)
        return sum(now - _aware(record.create_timestamp) < patience for record in pending)

    def last_number(self, context: dg.SensorEvaluationContext) -> int:
        """The number of the last request: from the cursor, or, when somebody reset it, from the runs themselves.

        Starting over at 1 would repeat run keys, and Dagster skips every request whose key it has seen.
        """
        if context.cursor and context.cursor.isdecimal():
            return int(context.cursor)
        filters = dg.RunsFilter(tags={SENSOR: self.sensor, QUEUE: self.queue})
        runs = context.instance.get_runs(filters, limit=RUNS_LOOKED_AT)
        numbers = [run.tags.get(RUN_KEY, "").removeprefix(f"{self.queue}:") for run in runs]
        return max((int(number) for number in numbers if number.isdecimal()), default=0)


def build_redis_queue_sensor(
    queue: str,
    *,
    target: Any,
    batch: int = 1,
    max_in_flight_runs: int = 1,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **sensor_options: Any,
) -> dg.SensorDefinition:
    """A sensor that requests runs of `target` while `queue` has work.

    Each tick requests one run per `batch` ready messages, less the runs of this sensor that are already on their way,
    and lets at most `max_in_flight_runs` be on their way at a time. A run that has claimed no longer counts: how many
    runs work at once is for Dagster's own concurrency limits to say. `config` must be the one that the runs use.
    `ring_again_after` (seconds, default 600) is how long a requested run that has not claimed keeps the bell silent.
    Further `sensor_options` go to `dagster.sensor`: name, minimum_interval_seconds, default_status, description, ...
    """
    name = sensor_options.pop("name", None) or re.sub(r"\W+", "_", queue) + "_doorbell"
    patience = sensor_options.pop("ring_again_after", 600)
    bell = Doorbell(queue, name, batch, max_in_flight_runs, patience)
    peeking = dataclasses.replace(config or LeasedConfig(), retry_budget=TICK_RETRY_BUDGET_S)

    @dg.sensor(name=name, target=target, required_resource_keys={resource_key}, **sensor_options)
    def doorbell(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        # The daemon gives resources in the context only, a call by hand (in a test) as keywords too.
        resource = getattr(context.resources, resource_key)
        return bell.ring(context, resource.queue(queue, peeking))

    return doorbell


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)  # run storages differ in which they return
