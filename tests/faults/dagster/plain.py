# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""Definitions for tests under load: a sensor requests runs of one asset while another asset is materialized."""

import time
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import RedisQueueResource
from tests.faults.dagster.board import Board
from tests.faults.dagster.ways import URL

BATCH = 100
SLOW_START_S = 10
CONFIG = LeasedConfig(lease=60)
RUNNING = dg.DefaultSensorStatus.RUNNING


@dg.asset
def loaded(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
    """An asset that claims long after its run was requested."""
    time.sleep(SLOW_START_S)
    with redis_queue.claimed(context, "arrivals", max_messages=BATCH) as batch:
        return dg.MaterializeResult(metadata=batch.metadata)


@dg.sensor(target=loaded, minimum_interval_seconds=5, default_status=RUNNING)
def work_is_there(context: dg.SensorEvaluationContext, redis_queue: RedisQueueResource) -> dg.SensorResult:
    return redis_queue.run_requests(context, "arrivals", batch=BATCH)


@dg.asset
def report() -> None:
    """An asset that is materialized at the same time."""


@dg.sensor(target=report, minimum_interval_seconds=20, default_status=RUNNING)
def reports() -> dg.RunRequest | dg.SkipReason:
    return dg.RunRequest() if Board.here().is_on("report") else dg.SkipReason("not now")


defs = dg.Definitions(
    assets=[loaded, report],
    sensors=[work_is_there, reports],
    resources={"redis_queue": RedisQueueResource(url=dg.EnvVar(URL), lease_seconds=60)},
    executor=dg.in_process_executor,
)
