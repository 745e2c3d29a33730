"""`Doorbell` requests runs while a queue has work, and names no messages.

A tick only polls. It neither claims nor names messages, so a timed-out tick, a dropped run request or a long-queued run
loses nothing: the next tick polls and requests again. A run claims the next messages when it starts; if none are left
it succeeds with `claimed=0`. Leases of ended runs are requeued first.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import dagster as dg

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, backlogs
from rmq_core.orchestrate import Threshold, chosen_groups, repeat_after_s
from rmq_core.reports import Backlog
from rmq_dagster.partitions import QueuePartitions, groups_of, named_after, only_queue, queue_of
from rmq_dagster.runs import holders
from rmq_dagster.runs.claiming import check_batch
from rmq_dagster.runs.identity import FENCE, LEASE, QUEUE
from rmq_dagster.runs.requested import RequestedRuns, SensorClaims, coming, fence_tag, queues_of, requested_for

QUEUES_LOOKED_AT = 1000  # non-empty partition queues polled in a tick; takes some 10 ms
REPEAT_EVERY_S = 10
HOLDERS_LOOKED_AT = 100  # queues a tick checks for leases of ended runs


def runs_to_request(claims: int, on_the_way: int, room: int) -> int:
    """Return how many runs to request now.

    One for each claim needed, minus runs that have yet to claim, at most `room`.
    """
    return max(0, min(claims - on_the_way, room))


def round_robin(wanted: Mapping[str, int], room: int) -> list[str]:
    """Assign runs to queues round-robin, so that a busy queue does not starve the others."""
    turns = range(max(wanted.values(), default=0))
    return list(islice((queue for turn in turns for queue, runs in wanted.items() if turn < runs), max(0, room)))


def some(names: Collection[str], most: int) -> list[str]:
    """Return a random sample of at most `most` names; over several ticks every queue is covered."""
    return list(names) if len(names) <= most else random.sample(list(names), most)


class TickFindings(NamedTuple):
    """A tick's result: one queue name per run to request, each queue's partition, and the skip reason.

    A partition that is a group goes by `QueuePartitions.named` in place of a queue's name.

    fences: the fence of each queue when it was polled, by which later ticks see whether anything was claimed since.
    """

    queues: list[str]
    partitions: Mapping[str, str | None]
    otherwise: str
    fences: Mapping[str, int | None] = MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Doorbell:
    """When and how many runs a sensor requests.

    `patience_s`: a run that has not claimed yet counts as pending until this long after it was dequeued.
    `claim_for_s`: a tick claims for the runs that it requests, with leases of this many seconds; None: ticks only poll.
    `repository`: the sensor's repository label, as other code locations may reuse sensor and queue names. `sensor`: the
    sensor's name; None for a tick that is run by hand, without a sensor. `groups`: only messages of these groups count,
    and a claiming tick claims only those.
    """

    queue: str | QueuePartitions
    sensor: str | None
    batch: int
    max_in_flight_runs: int
    patience_s: float
    min_messages: int = 1
    max_age_s: float | None = None
    claim_for_s: float | None = None
    repository: str | None = None
    groups: Collection[str] | None = None

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
        named_after(self.queue)
        if self.groups is not None:
            chosen_groups(self.groups)
            if isinstance(self.queue, QueuePartitions) and self.queue.each_group:
                raise ConfigurationError("groups must not be given where each partition is a group")

    def answer(self, context: dg.SensorEvaluationContext, redis: Any, config: LeasedConfig) -> dg.SensorResult:
        """Run a tick of a user-written sensor, which keeps its own cursor; its requests get no run keys."""
        found = self.needs(context, redis, config)
        return self.result(context, found, [(name, None) for name in found.queues], None)

    def tick(self, context: dg.SensorEvaluationContext, redis: Any, config: LeasedConfig) -> dg.SensorResult:
        """Run a tick of a built-in sensor, whose cursor is its last request number."""
        last = self.runs.last_number(context)
        found = self.needs(context, redis, config, last)
        numbered = list(self.prepared(redis, found, config, last + 1))
        return self.result(context, found, numbered, str(last + len(found.queues)))

    def result(
        self,
        context: dg.SensorEvaluationContext,
        found: TickFindings,
        asked: Sequence[tuple[str, int | None]],
        cursor: str | None,
    ) -> dg.SensorResult:
        """Build the SensorResult: numbered run requests for these queues, or the skip reason."""
        if not asked:
            return dg.SensorResult(skip_reason=found.otherwise, cursor=cursor)
        return dg.SensorResult(
            run_requests=[self.request(name, number, found) for name, number in asked],
            dynamic_partitions_requests=self.new_partitions(found, [name for name, _ in asked], context.instance),
            cursor=cursor,
        )

    def needs(
        self, context: dg.SensorEvaluationContext, redis: Any, config: LeasedConfig, last: int = 0
    ) -> TickFindings:
        """Poll, count pending runs, return those to request. `last`: the last request number."""
        partitions = self.partitions(redis, config)
        only = only_queue(self.queue)
        held = some(partitions, HOLDERS_LOOKED_AT) if only is None else [only]
        self.settle_ended(context, redis, config, held)
        self.look_after_claims(context.instance, redis, config, held, last)
        seen = self.backlogs(redis, partitions, config)
        enough, refused = self.admitted(context, self.enough(seen), partitions)
        if not enough:
            return TickFindings([], partitions, refused or self.quiet(seen))
        pending = self.runs.unclaimed(context.instance, redis, config)
        # Poll again: runs that claimed since the first poll are not in `pending`, so what they claimed must not count
        # as ready. More queues than there may be runs are not needed: each of them needs one, or has one in `pending`.
        first = {name: partitions[name] for name in islice(enough, self.max_in_flight_runs)}
        seen = self.backlogs(redis, first, config)
        if not (enough := self.enough(seen)):
            return TickFindings([], partitions, refused or self.quiet(seen))
        enough, resting = self.rested(context, enough)
        most = self.max_in_flight_runs
        if isinstance(self.queue, QueuePartitions):
            most = self.queue.runs_at_once(redis, config, most)
        asked = round_robin(self.wanted(enough, pending, partitions, most), self.max_in_flight_runs - len(pending))
        busy = self.busy(enough, len(pending)) if enough else ""
        fences = {name: backlog.fence for name, backlog in enough.items()}
        return TickFindings(asked, partitions, " ".join(filter(None, (busy, resting, refused))), fences)

    def rested(self, context: dg.SensorEvaluationContext, enough: dict[str, Backlog]) -> tuple[dict[str, Backlog], str]:
        """Drop queues whose last runs ended and claimed nothing, for longer each time; also return the reason."""
        tags = {fence_tag(name, backlog.fence): name for name, backlog in enough.items()}
        resting: list[str] = []
        for tag, ended in self.runs.in_vain(context.instance, list(tags)).items():
            rest_s = repeat_after_s(REPEAT_EVERY_S, ended.requests)
            if ended.seconds_ago < rest_s:
                name = tags[tag]
                backlog = enough.pop(name)
                resting.append(
                    f"Queue {name!r} has {backlog.ready} ready, but the runs of the last {ended.requests} request(s)"
                    f" have ended and nothing was claimed since; the next request comes after {rest_s:g} s, or a claim."
                    f" The log of run {ended.run_id} should say why: does it claim from this queue?"
                )
        for each in resting:
            context.log.warning(each)
        return enough, " ".join(resting)

    def partitions(self, redis: Any, config: LeasedConfig) -> Mapping[str, str | None]:
        """Return the queues to poll, each with its partition; empty partition queues are skipped."""
        if isinstance(self.queue, str):
            return {self.queue: None}
        found = self.queue.holding(redis, config)
        return {name: found[name] for name in some(found, QUEUES_LOOKED_AT)}

    def backlogs(self, redis: Any, partitions: Mapping[str, str | None], config: LeasedConfig) -> dict[str, Backlog]:
        """Return the backlog of each of these queues."""
        if isinstance(self.queue, str):
            return backlogs(redis, partitions, config, groups=self.groups)
        keys = {name: str(key) for name, key in partitions.items()}
        return self.queue.backlogs(redis, keys, config, groups=self.groups)

    def admitted(
        self, context: dg.SensorEvaluationContext, enough: dict[str, Backlog], partitions: Mapping[str, str | None]
    ) -> tuple[dict[str, Backlog], str]:
        """Drop queues that would exceed the partition limit; also return the warning."""
        if isinstance(self.queue, str) or not enough:
            return enough, ""
        keys = {name: str(partitions[name]) for name in enough}
        left_out = self.queue.left_out(keys, context.instance)
        if not left_out:
            return enough, ""
        refused = self.queue.refusal(left_out)
        context.log.warning(refused)
        return {name: backlog for name, backlog in enough.items() if name not in left_out}, refused

    def settle_ended(
        self, context: dg.SensorEvaluationContext, redis: Any, config: LeasedConfig, names: Sequence[str]
    ) -> None:
        """Release leases of cancelled or deleted runs; expire those of runs that failed for good."""
        with ExitStack() as opened:
            queues = [opened.enter_context(LeasedQueue(redis, name, config)) for name in names]
            is_ours = self.claims.has_named if self.claims else None
            for done in holders.settle_ended(context.instance, queues, is_ours):
                context.log.info(done)

    def look_after_claims(
        self, instance: dg.DagsterInstance, redis: Any, config: LeasedConfig, names: Sequence[str], last: int
    ) -> None:
        """Extend leases claimed by earlier ticks for queued runs; release those no run will adopt."""
        if self.claims is None:
            return
        for name in {*names, *queues_of(self.runs.unfinished(instance))}:
            with LeasedQueue(redis, name, config) as queue:
                self.claims.look_after(queue, lambda lease_id: self.runs.latest_of(instance, lease_id), last=last)

    def enough(self, seen: Mapping[str, Backlog]) -> dict[str, Backlog]:
        """Return the queues over the threshold, oldest message first."""
        found = [(name, backlog) for name, backlog in seen.items() if self.is_enough(backlog)]
        return dict(sorted(found, key=lambda item: -(item[1].oldest_age or 0)))

    def is_enough(self, backlog: Backlog) -> bool:
        """Return whether the backlog meets the threshold."""
        return Threshold(self.min_messages, self.max_age_s).met_by(backlog)

    def wanted(
        self,
        enough: Mapping[str, Backlog],
        pending: Sequence[dg.RunRecord],
        partitions: Mapping[str, str | None],
        most: int,
    ) -> dict[str, int]:
        """Return the number of runs to request for each queue; `most`: how many of one may be on their way."""
        found: dict[str, int] = {}
        for name, backlog in enough.items():
            key = partitions[name]
            expected = self.on_the_way(requested_for(queue_of(self.queue, key), pending, key))
            found[name] = runs_to_request(min(most, backlog.claims(self.batch)), expected, self.max_in_flight_runs)
        return found

    def prepared(self, redis: Any, found: TickFindings, config: LeasedConfig, first: int) -> Iterator[tuple[str, int]]:
        """Number the requests; a claiming sensor claims for each and skips empty claims."""
        for number, name in enumerate(found.queues, first):
            if self.claims is not None:
                key = found.partitions[name]
                with LeasedQueue(redis, queue_of(self.queue, key), config) as queue:
                    if not self.claims.claim(queue, number, self.batch, groups_of(self.queue, key) or self.groups):
                        continue
            yield name, number

    def request(self, name: str, number: int | None, found: TickFindings) -> dg.RunRequest:
        """Return a run request without message ids. Its run key only deduplicates the request."""
        if self.claims is None or number is None:
            more = {FENCE: fence_tag(name, found.fences.get(name))}
        else:  # the claims of ticks raise the fence, so it shows nothing about runs
            more = {LEASE: self.claims.lease_id(number)}
        key = None if number is None else f"{name}:{number}"
        partition = found.partitions[name]
        return dg.RunRequest(key, tags={QUEUE: queue_of(self.queue, partition), **more}, partition_key=partition)

    def new_partitions(
        self, found: TickFindings, names: Sequence[str], instance: dg.DagsterInstance
    ) -> list[Any] | None:
        """Return requests to add the missing dynamic partitions."""
        keys = [key for name in names if (key := found.partitions[name]) is not None]
        return None if isinstance(self.queue, str) else self.queue.request(keys, instance) or None

    def quiet(self, seen: Mapping[str, Backlog]) -> str:
        """Return the skip reason for a backlog below the threshold."""
        name = repr(self.queue) if isinstance(self.queue, str) else f"{self.queue.prefix}/…"
        paused = [one for one, backlog in seen.items() if backlog.paused and backlog.ready]
        if paused:
            more = f" and {len(paused) - 3} more are" if len(paused) > 3 else " is"
            return (
                f"Queue {', '.join(map(repr, paused[:3]))}{more} paused, with"
                f" {sum(seen[one].ready for one in paused)} ready: resume with `rmq resume`, or in the console."
            )
        ready = sum(backlog.ready for backlog in seen.values())
        if not ready:
            return f"Queue {name} has nothing ready{self.of_groups}."
        age = "" if self.max_age_s is None else f", and none has been ready for {self.max_age_s:g} s"
        return f"Queue {name} has {ready} ready{self.of_groups}, fewer than min_messages={self.min_messages}{age}."

    def busy(self, enough: Mapping[str, Backlog], pending: int) -> str:
        """Return the skip reason when pending runs cover the backlog."""
        ready = sum(backlog.ready for backlog in enough.values())
        apart = sum(group.size for backlog in enough.values() for group in backlog.groups)
        isolated = f", {apart} of them isolated after failing together" if apart else ""
        return (
            f"Queue {', '.join(map(repr, islice(enough, 3)))} has {ready} ready{self.of_groups}{isolated}; {pending}"
            f" run(s) of this sensor have yet to claim (max_in_flight_runs={self.max_in_flight_runs})."
        )

    def on_the_way(self, pending: Sequence[dg.RunRecord]) -> int:
        """Return how many pending runs to subtract: not all, as a dead worker's run may stay `STARTED` forever.

        With `claim_for_s`, claimed messages are not ready, so no run is subtracted.
        """
        return 0 if self.claim_for_s is not None else coming(pending, self.patience_s)

    @property
    def of_groups(self) -> str:
        """Return the words that name the chosen groups in a skip reason, of many the first three."""
        if self.groups is None:
            return ""
        more = f" and {len(self.groups) - 3} more" if len(self.groups) > 3 else ""
        return f" in the groups {', '.join(map(repr, islice(self.groups, 3)))}{more}"

    @property
    def runs(self) -> RequestedRuns:
        """Return the runs that this sensor requested."""
        return RequestedRuns(self.sensor, self.repository, self.queue if isinstance(self.queue, str) else None)

    @property
    def claims(self) -> SensorClaims | None:
        """Return the claims made by this sensor's ticks; None if it only polls."""
        if self.claim_for_s is None or self.sensor is None:
            return None
        return SensorClaims(self.sensor, self.repository, self.claim_for_s)
