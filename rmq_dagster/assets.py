# ruff: noqa: I002 - Dagster compares the annotation of `context` with its own class, so it must not become a string
"""`redis_queue_asset`: a queue in Dagster's lineage. Observing it reports what the queue holds and claims nothing."""

import warnings
from collections.abc import Sequence
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig, QueueStats
from rmq_core.work import depth
from rmq_dagster.console_link import console_link
from rmq_dagster.names import dagster_name
from rmq_dagster.resources import RedisQueueResource


def redis_queue_asset(
    queue: str,
    *,
    key: str | Sequence[str] | dg.AssetKey | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **asset_options: Any,
) -> Any:
    """Return an observable asset for a queue: depth, age of the oldest message and dead letters, plotted over time.

    The asset's key is the queue's name, all but ASCII letters and digits replaced by `_`, unless `key` is given.
    `asset_options` go to Dagster's observable_source_asset: group_name, description, automation_condition, tags, ...
    """

    def observe(context: dg.OpExecutionContext) -> dg.ObserveResult:
        resource: RedisQueueResource = getattr(context.resources, resource_key)
        return dg.ObserveResult(metadata={**about(queue), **measured(resource.stats(queue, config))})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # the caller did not choose the beta API
        made = dg.observable_source_asset(
            key=dagster_name(queue) if key is None else key,
            required_resource_keys={resource_key},
            **{"description": f"The Redis queue {queue!r}.", **asset_options},
        )
        return made(observe)


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
