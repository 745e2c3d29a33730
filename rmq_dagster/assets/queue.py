# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""`redis_queue_asset`, its data version, and `publish_op`. Observing a queue claims nothing.

`AutomationCondition.eager()` of an asset downstream fires whenever the data version of its upstream asset changed. So
while something is ready, the version tells which work that is; an empty or paused queue keeps the version that it had.
Before its first message a queue has no version. Dagster forgets a change that it sees together with the end of a run,
and a run may end before it claims. So the same work gets another version after a minute; while a run is queued or
works, `eager()` requests no other one.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig, MalformedMessage, Unsupported, WorkQueue
from rmq_core.orchestrate import depth
from rmq_core.reports import QueueStats
from rmq_dagster.names import console_link, dagster_name
from rmq_dagster.partitions import QueuePartitions, groups_of, named_after, queue_of, stats_of
from rmq_dagster.resources import resource_in
from rmq_dagster.runs.identity import DATA_VERSION

SAME_WORK_S = 60
OF_GROUP = ("rmq/ready", "rmq/isolated", "rmq/oldest_age_seconds")


def data_version(
    queue: WorkQueue, stats: QueueStats, before: str | None, groups: Sequence[str] | None = None
) -> str | None:
    """Return the version of the queue's present content; `before`, that of its last observation, if it has no work."""
    now_ms = int(time.time() * 1000)
    work = None if stats.paused else _work(queue, _next_one(queue) if groups is None else _waiting(stats))
    if work is None:
        return before
    last_work, _, since = (before or "").rpartition("@")
    still = last_work == work and since.isdecimal() and now_ms - int(since) < SAME_WORK_S * 1000
    return before if still else f"{work}@{now_ms}"


def last_version(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None = None) -> str | None:
    """Return the version in the last observation of an asset; None without an observation or a version."""
    observation = last_observation(instance, key, partition)
    return observation.tags.get(DATA_VERSION) if observation else None


def last_observation(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None = None
) -> dg.AssetObservation | None:
    """Return the last observation of an asset, or of one of its partitions."""
    seen = next(iter(instance.fetch_observations(records_of(key, partition), limit=1).records), None)
    return seen.asset_observation if seen else None


def records_of(key: dg.AssetKey, partition: str | None) -> dg.AssetRecordsFilter:
    """Return the filter for the events of an asset, or of one of its partitions."""
    return dg.AssetRecordsFilter(key, asset_partitions=None if partition is None else [partition])


def _work(queue: WorkQueue, next_one: str | None) -> str | None:
    """Return a text that differs as soon as messages came, were settled or came back; None if nothing is ready."""
    if next_one is None:
        return None
    # Clients report their counts about once a second, or never. The next message tells the rest: a queue that was
    # drained and published to has another one, and a message that came back has one more delivery.
    came = left = 0
    with suppress(Unsupported):  # a discipline without a history
        totals = queue.admin.totals()
        came = totals.published + totals.redriven
        left = totals.acked + totals.nacked + totals.released + totals.reclaimed
    return f"{came}:{left}:{next_one}"


def _next_one(queue: WorkQueue) -> str | None:
    """Return what identifies the next delivery of a message; None if nothing is ready."""
    try:
        return next((f"{message.id}:{message.deliveries}" for message in queue.admin.peek(1)), None)
    except MalformedMessage:
        return "malformed"


def _waiting(stats: QueueStats) -> str | None:
    """Return how many messages of a group wait, None if none do; the totals of `_work` are those of all groups."""
    return f"{stats.ready}" if stats.ready else None


def redis_queue_asset(
    queue: str | QueuePartitions,
    *,
    key: str | Sequence[str] | dg.AssetKey | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    discipline: str = "leased",
    **asset_options: Any,
) -> dg.AssetsDefinition:
    """Return an observable asset for a queue: depth, age of the oldest message and dead letters, plotted over time.

    With QueuePartitions it is one asset, with a plot for each partition. Its data version changes only while messages
    are ready, so `AutomationCondition.eager()` downstream fires for work. The asset's key is the queue's name, or the
    prefix, all but ASCII letters and digits replaced by `_`, unless `key` is given. discipline: of a queue that is not
    a LeasedQueue; `config` is for those only. `asset_options` go to Dagster's AssetSpec: deps (the assets that
    publish), group_name, description, owners, kinds ({"redis"}), tags, ...
    """
    spec = dg.AssetSpec(named_after(queue) if key is None else key, **{**_described(queue), **asset_options})

    def observe(context: dg.OpExecutionContext) -> dg.ObserveResult:
        partition = None if isinstance(queue, str) else context.partition_key
        resource = resource_in(context, resource_key)
        groups = groups_of(queue, partition)
        with resource.opened(queue_of(queue, partition), config, discipline) as observed:
            return observation(observed, stats_of(observed, groups), context.instance, spec.key, partition, groups)

    return observable(spec, observe, resource_key)


def _described(queue: str | QueuePartitions) -> dict[str, Any]:
    """Return the attributes of a queue's asset that the caller may replace."""
    if isinstance(queue, str):
        return {"description": f"The Redis queue {queue!r}.", "kinds": {"redis"}, "metadata": about(queue)}
    each = f"groups of the Redis queue {queue.prefix!r}" if queue.each_group else f"Redis queues {queue.named('…')!r}"
    described = f"The {each}, one for each partition."
    return {"description": described, "kinds": {"redis"}, "partitions_def": queue.definition}


def observable(
    spec: dg.AssetSpec, observe: Callable[[dg.OpExecutionContext], dg.ObserveResult], resource_key: str
) -> dg.AssetsDefinition:
    """Return an observable asset with all attributes of its spec: `observable_source_asset` drops owners and kinds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # the caller did not choose the beta API
        made = dg.multi_observable_source_asset(
            specs=[spec], name=dagster_name("__".join(spec.key.path)), required_resource_keys={resource_key}
        )
        asset: dg.AssetsDefinition = made(observe)
    return asset


def observation(
    queue: WorkQueue,
    stats: QueueStats,
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partition: str | None = None,
    groups: Sequence[str] | None = None,
) -> dg.ObserveResult:
    """Return what a queue, or the group that is its partition, holds, with the data version of its content."""
    version = data_version(queue, stats, last_version(instance, key, partition), groups)
    numbers = measured(stats)
    if groups is not None:
        numbers = {name: numbers[name] for name in OF_GROUP}
    return dg.ObserveResult(
        asset_key=key,
        metadata={**about(queue.name), **({"rmq/group": groups[0]} if groups else {}), **numbers},
        data_version=None if version is None else dg.DataVersion(version),
    )


def about(queue: str) -> dict[str, Any]:
    """Return the name of the queue as metadata and, if `RMQ_CONSOLE` is set, the link to its page in the console."""
    return {"rmq/queue": queue, **console_link(queue)}


def measured(stats: QueueStats) -> dict[str, int | float]:
    """Return the numbers that Dagster plots: `depth` counts ready, delayed and leased messages; the age is in seconds.

    The age is 0 when no message waits. `isolated` counts the ready messages that are claimed apart
    from the others, because they failed together before.
    """
    return {
        "rmq/depth": depth(stats), "rmq/ready": stats.ready, "rmq/delayed": stats.delayed, "rmq/leased": stats.leased,
        "rmq/isolated": stats.isolated, "rmq/oldest_age_seconds": float(stats.oldest_age or 0),
        "rmq/dead_letters": stats.dead,
    }  # fmt: skip


def publish_op(
    queue: str, *, name: str | None = None, config: LeasedConfig | None = None, resource_key: str = "redis_queue"
) -> dg.OpDefinition:
    """Return an op that publishes a list of payloads and outputs how many were accepted; its metadata has duplicates.

    >>> @dg.job
    >>> def publish_orders(): publish_op("orders")(todays_orders())
    """

    @dg.op(
        name=name or "publish_to_" + dagster_name(queue),
        description=f"Publish to the Redis queue {queue!r}.",
        required_resource_keys={resource_key},
        ins={"payloads": dg.In(list, description="Strings, bytes, dicts or lists; each one is a message.")},
        out=dg.Out(int, description="How many messages were accepted."),
    )
    def publish(context: dg.OpExecutionContext, payloads: list[Any]) -> int:
        resource = resource_in(context, resource_key)
        report = resource.publish(queue, payloads, config=config)
        counts = {**about(queue), "rmq/published": report.accepted, "rmq/duplicates": report.duplicates}
        context.add_output_metadata({**counts, "rmq/dropped": report.dropped})
        return report.accepted

    return publish
