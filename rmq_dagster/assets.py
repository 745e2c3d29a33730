# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""`redis_queue_asset`: a queue in Dagster's lineage. Observing it reports what the queue holds and claims nothing."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.reports import QueueStats
from rmq_core.work import depth
from rmq_dagster.console_link import console_link
from rmq_dagster.names import dagster_name
from rmq_dagster.resources import resource_in
from rmq_dagster.versions import data_version


def redis_queue_asset(
    queue: str,
    *,
    key: str | Sequence[str] | dg.AssetKey | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **asset_options: Any,
) -> dg.AssetsDefinition:
    """Return an observable asset for a queue: depth, age of the oldest message and dead letters, plotted over time.

    Its data version changes only while messages are ready, so `AutomationCondition.eager()` downstream fires for work.
    The asset's key is the queue's name, all but ASCII letters and digits replaced by `_`, unless `key` is given.
    `asset_options` go to Dagster's AssetSpec: deps (the assets that publish), group_name, description, owners, kinds
    ({"redis"}), tags, ...
    """
    described = {"description": f"The Redis queue {queue!r}.", "kinds": {"redis"}}
    spec = dg.AssetSpec(dagster_name(queue) if key is None else key, **{**described, **asset_options})

    def observe(context: dg.OpExecutionContext) -> dg.ObserveResult:
        resource = resource_in(context, resource_key)
        observed = resource.queue(queue, config)
        return observation(observed, observed.stats(), context.instance, spec.key)

    return observable(spec, observe, resource_key)


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
    queue: LeasedQueue, stats: QueueStats, instance: dg.DagsterInstance, key: dg.AssetKey
) -> dg.ObserveResult:
    """Return what a queue holds, with the data version of its content."""
    version = data_version(queue, stats, instance, key)
    return dg.ObserveResult(
        asset_key=key,
        metadata={**about(queue.name), **measured(stats)},
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
        "rmq/depth": depth(stats),
        "rmq/ready": stats.ready,
        "rmq/delayed": stats.delayed,
        "rmq/leased": stats.leased,
        "rmq/isolated": stats.isolated,
        "rmq/oldest_age_seconds": float(stats.oldest_age or 0),
        "rmq/dead_letters": stats.dead,
    }
