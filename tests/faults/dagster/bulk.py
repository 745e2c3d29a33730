# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""What is deployed for the numbers: three assets that consume in batches of different sizes, and a bell for each."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor
from tests.faults.dagster.ways import URL

CONFIG = LeasedConfig(lease=120)
BATCHES = {"one": 1, "hundred": 100, "thousand": 1000}


def consumer(name: str, batch: int) -> dg.AssetsDefinition:
    """An asset that works on one batch of the queue of its name."""

    @dg.asset(name=name)
    def consume(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        with redis_queue.claimed(context, name, max_messages=batch, config=CONFIG) as claimed:
            worked_on = sum(1 for _ in claimed)
            return dg.MaterializeResult(metadata={**claimed.metadata, "worked_on": worked_on})

    return consume


def bells() -> Iterator[dg.SensorDefinition]:
    """A sensor for each asset."""
    for asset in assets:
        name = asset.key.to_user_string()
        yield build_redis_queue_sensor(
            name,
            target=asset,
            name=f"bell_{name}",
            batch=BATCHES[name],
            config=CONFIG,
            minimum_interval_seconds=1,
            default_status=dg.DefaultSensorStatus.RUNNING,
        )


assets = [consumer(name, batch) for name, batch in BATCHES.items()]
defs = dg.Definitions(
    assets=assets,
    sensors=list(bells()),
    resources={"redis_queue": RedisQueueResource(url=dg.EnvVar(URL))},
    executor=dg.in_process_executor,
)
