# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""`redis_queue_checks`: asset checks on a queue. One read of its counts serves all of them; nothing is claimed."""

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg

from rmq_core import ConfigurationError, LeasedConfig
from rmq_core.orchestrate import LimitBounds, StatsLimits, unmet
from rmq_core.reports import QueueStats
from rmq_dagster.assets.queue import records_of
from rmq_dagster.names import dagster_name
from rmq_dagster.partitions import QueuePartitions, groups_of, named_after, queue_of, stats_of
from rmq_dagster.resources import resource_in
from rmq_dagster.runs.identity import PUBLICATION

OF_QUEUE = ("dead_letters", "lease_age")  # Redis counts these for the whole queue, not for each group
COUNTS = ("messages", "waiting", "leased", "acked", "dead", "removed")


@dataclasses.dataclass(frozen=True)
class Limit(LimitBounds):
    """Bounds of a value: above `warn` a check fails as a warning, above `error` as an error."""

    def judge(self, value: float) -> dg.AssetCheckSeverity | None:
        """Return the severity of a value above a bound, or None when the value is good."""
        return _severity(self, value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueLimits(StatsLimits):
    """The limits that the checks compare; a limit of None is not checked. Ages are seconds.

    depth: messages that are ready, delayed or leased. oldest_age: seconds since the oldest ready one was published.
    dead_letters: messages that failed too often. isolated: ready messages that failed together before and are tried
    apart from the others. lease_age: seconds since the lease was claimed that is held the longest. freshness: time
    since the asset was materialized or observed.
    """

    freshness: LimitBounds | None = None


def redis_queue_checks(
    queue: str | QueuePartitions,
    *,
    asset: Any,
    limits: StatsLimits | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    blocking: bool = False,
    discipline: str = "leased",
) -> dg.AssetChecksDefinition:
    """Return checks named `<queue>_depth`, ... on the publishing asset, the consuming asset, or the queue's own.

    Without `limits` any dead letter is an error, and nothing else is checked. With QueuePartitions, a run checks the
    queue of its partition. discipline: as for redis_queue_asset.
    """
    return QueueChecks(queue, asset, limits or QueueLimits(), blocking=blocking).defined(
        f"{named_after(queue)}_checks", config, resource_key, discipline
    )


def redis_queue_publication_check(
    queue: str,
    *,
    asset: Any,
    publication: str | Callable[[str], str] | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
) -> dg.AssetChecksDefinition:
    """Return a check `<queue>_publication`: all messages of a publication are done, and none of them is dead.

    Its metadata are the counts. publication: its name, or a function that returns the name for the partition of the
    run; None for the one whose end the run was requested for, by `redis_queue_publication_sensor`: a run without one
    raises ConfigurationError.
    """

    @dg.asset_check(
        name=f"{dagster_name(queue)}_publication", asset=asset, required_resource_keys={resource_key},
        description=f"All messages of the publication in the queue {queue!r} are done, and none is dead.",
    )  # fmt: skip
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        fixed = publication(context.partition_key) if callable(publication) else publication
        name = fixed or context.run.tags.get(PUBLICATION)
        if name is None:
            raise ConfigurationError(
                f"publication: this run has no tag {PUBLICATION}, because no redis_queue_publication_sensor requested"
                " it; start it with that tag, or pass redis_queue_publication_check(publication=...)"
            )
        found = resource_in(context, resource_key).queue(queue, config).publication(name)
        counts = {field: getattr(found, field) for field in COUNTS}
        return dg.AssetCheckResult(
            passed=not unmet(found),
            metadata={"rmq/queue": queue, PUBLICATION: name, **{f"rmq/{field}": n for field, n in counts.items()}},
            description=unmet(found) or None,
        )

    return check


class QueueChecks:
    """The checks of a queue on an asset: their specifications and their results."""

    def __init__(
        self, queue: str | QueuePartitions, asset: Any, limits: StatsLimits, *, blocking: bool = False
    ) -> None:
        self.queue, self.limits, self.given = queue, limits, limits.given()
        if not self.given:
            raise ConfigurationError("limits must set at least one limit: there is nothing to check")
        self.specs = {
            name: dg.AssetCheckSpec(
                f"{named_after(queue)}_{name}", asset=asset, blocking=blocking, description=_described(name, limit)
            )
            for name, limit in self.given.items()
        }

    @property
    def asset_key(self) -> dg.AssetKey:
        """Return the key of the asset that is checked."""
        return next(iter(self.specs.values())).asset_key

    @property
    def of_queue(self) -> set[str]:
        """The names of the checks that are of the whole queue where partitions are groups."""
        each_group = isinstance(self.queue, QueuePartitions) and self.queue.each_group
        return {self.specs[name].name for name in OF_QUEUE if name in self.specs} if each_group else set()

    def defined(
        self, name: str, config: LeasedConfig | None, resource_key: str, discipline: str
    ) -> dg.AssetChecksDefinition:
        """Return the checks in a form that runs can execute. name: that of their op."""

        def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
            partition = None if isinstance(self.queue, str) else context.partition_key
            resource = resource_in(context, resource_key)
            with resource.opened(queue_of(self.queue, partition), config, discipline) as queue:
                stats = stats_of(queue, groups_of(self.queue, partition))
            yield from self.results(context.instance, stats, partition)

        specs = list(self.specs.values())
        return dg.multi_asset_check(name=name, specs=specs, required_resource_keys={resource_key})(check)

    def results(
        self, instance: dg.DagsterInstance, stats: QueueStats, partition: str | None = None
    ) -> Iterator[dg.AssetCheckResult]:
        """Yield the result of each check for a queue with these counts."""
        measured = self.limits.measure(stats)
        for name, spec in self.specs.items():
            value = measured[name] if name in measured else _silence(instance, spec.asset_key, partition)
            yield _result(spec, self.given[name], value)


def _result(spec: dg.AssetCheckSpec, limit: LimitBounds, value: float | None) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.WARN if value is None else _severity(limit, value)
    bounds = {f"rmq/{name}_above": bound for name, bound in dataclasses.asdict(limit).items() if bound is not None}
    return dg.AssetCheckResult(
        check_name=spec.name,
        asset_key=spec.asset_key,
        passed=severity is None,
        severity=severity or dg.AssetCheckSeverity.ERROR,
        metadata=bounds | ({} if value is None else {"rmq/value": float(value)}),
        description="The asset was neither materialized nor observed yet." if value is None else None,
    )


def _severity(limit: LimitBounds, value: float) -> dg.AssetCheckSeverity | None:
    grade = limit.grade(value)
    return dg.AssetCheckSeverity[grade.upper()] if grade else None


def _described(name: str, limit: LimitBounds) -> str:
    bounds = [f"{kind} above {bound:g}" for kind, bound in dataclasses.asdict(limit).items() if bound is not None]
    return f"{name.replace('_', ' ')} of the queue: {', '.join(bounds)}"


def _silence(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None) -> float | None:
    """Return the seconds since the asset was materialized or observed; None when it never was."""
    records = records_of(key, partition)
    found = (instance.fetch_materializations(records, limit=1), instance.fetch_observations(records, limit=1))
    seen = [event.timestamp for each in found for event in each.records]
    return max(0.0, dt.datetime.now(dt.UTC).timestamp() - max(seen)) if seen else None
