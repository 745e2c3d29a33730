# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""What two code locations serve at once: an asset that consumes the queue `arrivals`, and its sensor."""

import time
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor
from tests.faults.dagster.board import Board
from tests.faults.dagster.ways import URL

QUEUE, BATCH, WORK_S = "arrivals", 10, 2
CONFIG = LeasedConfig(lease=60)


@dg.asset
def arrived(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
    """Work on one batch."""
    with redis_queue.claimed(context, QUEUE, max_messages=BATCH, config=CONFIG) as batch:
        Board.here().note("did", QUEUE, run=context.run.run_id, payloads=batch.payloads)
        time.sleep(WORK_S if batch else 0)
    return dg.MaterializeResult(metadata=batch.metadata)


bell = build_redis_queue_sensor(
    QUEUE,
    target=arrived,
    name="bell",
    batch=BATCH,
    config=CONFIG,
    minimum_interval_seconds=1,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
defs = dg.Definitions(
    assets=[arrived],
    sensors=[bell],
    resources={"redis_queue": RedisQueueResource(url=dg.EnvVar(URL))},
    executor=dg.in_process_executor,
)
