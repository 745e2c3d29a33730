# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""The definitions for runs that end between two tries: steps that wait for a retry, runs that wait to be retried.

Sensors tick at their default interval.
"""

from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor, redis_queue_status_sensors
from tests.faults.dagster.board import Board
from tests.faults.dagster.deployment import LANE
from tests.faults.dagster.ways import URL

STEP_WAITS = {"in one process": dg.in_process_executor, "in processes": dg.multiprocess_executor}
RUN_WAITS = "run retried"
WAYS = [*STEP_WAITS, RUN_WAITS]
ENDS = ["terminated", "deleted"]
QUEUES = {f"{way}, {end}".replace(" ", "_").replace(",", ""): (way, end) for way in WAYS for end in ENDS}
RETRY_AFTER_S = 600
CONFIG = LeasedConfig(lease=60)

on: dict[str, Any] = {"config": CONFIG, "default_status": dg.DefaultSensorStatus.RUNNING}


def consumer(queue: str, way: str) -> dg.AssetsDefinition:
    """An asset whose first try fails; only a step, or only a run, is retried."""
    policy = dg.RetryPolicy(max_retries=1, delay=RETRY_AFTER_S) if way in STEP_WAITS else None

    @dg.asset(name=queue, retry_policy=policy)
    def consume(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        board = Board.here()
        with redis_queue.claimed(context, queue, config=CONFIG) as batch:
            if board.is_on("fail"):
                board.wait_while("hold")
                board.note("failed", queue, run=context.run.run_id)
                raise RuntimeError("as told")
            board.note("did", queue, run=context.run.run_id, payloads=batch.payloads)
        return dg.MaterializeResult(metadata=batch.metadata)

    return consume


def bell(asset: dg.AssetsDefinition, way: str) -> dg.SensorDefinition:
    """The sensor of an asset."""
    queue = asset.key.to_user_string()
    tags = {} if way in STEP_WAITS else {LANE: queue, "dagster/max_retries": "1"}
    executor = STEP_WAITS.get(way, dg.in_process_executor)
    job = dg.define_asset_job(f"work_{queue}", [asset], tags=tags, executor_def=executor)
    return build_redis_queue_sensor(queue, target=job, name=f"bell_{queue}", batch=10, **on)


@dg.op
def occupy() -> None:
    """Delay the retry of a run."""
    Board.here().wait_while("block")


@dg.job
def blocker() -> None:
    occupy()


@dg.sensor(job=blocker, minimum_interval_seconds=1, default_status=dg.DefaultSensorStatus.RUNNING)
def blockers() -> list[dg.RunRequest]:
    """One in the lane of each run that is to be retried, as soon as `block` is on."""
    lanes = [queue for queue, (way, _) in QUEUES.items() if way == RUN_WAITS]
    return [dg.RunRequest(run_key=lane, tags={LANE: lane}) for lane in lanes] if Board.here().is_on("block") else []


assets = {queue: consumer(queue, way) for queue, (way, _) in QUEUES.items()}
bells = [bell(asset, QUEUES[queue][0]) for queue, asset in assets.items()]
defs = dg.Definitions(
    assets=list(assets.values()),
    jobs=[blocker],
    sensors=[blockers, *bells, *redis_queue_status_sensors(list(QUEUES), **on)],
    resources={"redis_queue": RedisQueueResource(url=dg.EnvVar(URL))},
)
