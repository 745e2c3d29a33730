# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""What the pictures of the documentation show: an asset that works on a queue, its checks, the queue, a doorbell."""

import random
import time
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import (
    Limit,
    QueueLimits,
    RedisQueueResource,
    build_redis_queue_sensor,
    redis_queue_asset,
    redis_queue_checks,
    redis_queue_status_sensors,
)

QUEUE, BATCH = "arrivals", 100
URL = "RMQ_SHOWCASE_URL"
CONFIG = LeasedConfig(lease=60, max_deliveries=2)
RUNNING = dg.DefaultSensorStatus.RUNNING


@dg.asset(group_name="arrivals", description="Files that arrived, loaded in batches of one lease each.")
def loaded(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
    """Claim, work, ack."""
    with redis_queue.claimed(context, QUEUE, max_messages=BATCH, config=CONFIG) as batch:
        rows = sum(random.randrange(800, 1200) for _ in batch)
        time.sleep(len(batch) / 1000)
        return dg.MaterializeResult(metadata={**batch.metadata, "rows": rows})


backlog = redis_queue_asset(QUEUE, key="arrivals_queue", group_name="arrivals", config=CONFIG)
checks = redis_queue_checks(
    QUEUE,
    asset=loaded,
    limits=QueueLimits(
        depth=Limit(warn=10_000, error=100_000),
        oldest_age=Limit(warn=900),
        dead_letters=Limit(error=0),
        freshness=Limit(warn=86_400),
    ),
    config=CONFIG,
)
doorbell = build_redis_queue_sensor(
    QUEUE, target=loaded, batch=BATCH, config=CONFIG, minimum_interval_seconds=1, default_status=RUNNING
)
work = dg.define_asset_job("work", selection=dg.AssetSelection.assets(loaded))
observe = dg.define_asset_job("observe", selection=dg.AssetSelection.assets("arrivals_queue"))
defs = dg.Definitions(
    assets=[loaded, backlog],
    asset_checks=[checks],
    jobs=[work, observe],
    sensors=[doorbell, *redis_queue_status_sensors(QUEUE, config=CONFIG, default_status=RUNNING)],
    resources={"redis_queue": RedisQueueResource(url=dg.EnvVar(URL))},
    executor=dg.in_process_executor,
)
