# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""What is deployed for isolation: assets whose step fails, or whose process dies, of one message; runs one by one."""

import os
import signal
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor, redis_queue_status_sensors
from tests.faults.dagster.board import Board
from tests.faults.dagster.deployment import LANE
from tests.faults.dagster.ways import URL

CASES = "RMQ_FAULTS_CASES"  # such as "fails_3 kills_0": what the poison does, and how often a step is retried
BATCH = 200
POISON = "poison"
CONFIG = LeasedConfig(max_deliveries=5)  # more than the tries of one step; the lease is the default, five minutes

running: dict[str, Any] = {"config": CONFIG, "default_status": dg.DefaultSensorStatus.RUNNING}


def suffer(context: dg.AssetExecutionContext, case: str, payloads: list[str]) -> None:
    """Do the work: it succeeds unless the poison is among the messages."""
    board = Board.here()
    if POISON in payloads:
        board.note("hit", case, run=context.run.run_id)
    if POISON in payloads and not case.startswith("fails"):
        os.kill(os.getpid(), signal.SIGKILL)
    if POISON in payloads:
        raise ValueError(POISON)


def consumer(case: str, retries: int) -> dg.AssetsDefinition:
    """An asset that works on one batch of the queue of its name, as a whole or in steps, message by message."""
    in_steps = case.startswith("steps")

    @dg.asset(name=case, retry_policy=dg.RetryPolicy(max_retries=retries) if retries else None)
    def consume(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        board, run = Board.here(), context.run.run_id
        with redis_queue.claimed(context, case, max_messages=BATCH, sequential=in_steps, config=CONFIG) as batch:
            if batch:  # a try whose message has just died gets nothing
                board.note("began", case, run=run)
            for message in batch if in_steps else ():
                suffer(context, case, [message.payload])
                batch.ack(message)
                board.note("acked", case, run=run)
            if batch and not in_steps:
                suffer(context, case, batch.payloads)
        if batch and not in_steps:
            board.note("acked", case, run=run)
        return dg.MaterializeResult(metadata=batch.metadata)

    return consume


def bell(asset: dg.AssetsDefinition) -> dg.SensorDefinition:
    """The sensor of an asset. A step that dies has a process of its own, so that Dagster can retry it."""
    case = asset.key.to_user_string()
    executor = dg.in_process_executor if case.startswith("fails") else dg.multiprocess_executor
    job = dg.define_asset_job(f"work_{case}", [asset], tags={LANE: case}, executor_def=executor)
    return build_redis_queue_sensor(
        case, target=job, name=f"bell_{case}", batch=BATCH, minimum_interval_seconds=1, **running
    )


cases = os.environ.get(CASES, "fails_0").split()
assets = [consumer(case, int(case.rpartition("_")[2])) for case in cases]
defs = dg.Definitions(
    assets=assets,
    sensors=[*map(bell, assets), *redis_queue_status_sensors(cases, minimum_interval_seconds=1, **running)],
    resources={"redis_queue": RedisQueueResource(url=dg.EnvVar(URL))},
)
