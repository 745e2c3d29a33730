# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""The definitions of the deployment: four ways of working, each on its own queue, and runs that only occupy slots.

Each way has a resource under its own name, whose ticks can be prolonged: a tick then ends late, when its work in Redis
is done and its daemon does not know the result yet.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from rmq_core import LeaseLost
from rmq_dagster import (
    PipesRedisQueueSparkClient,
    QueuePartitions,
    RedisQueueResource,
    build_redis_queue_sensor,
    redis_queue_status_sensors,
)
from tests.faults.dagster.board import Board
from tests.faults.dagster.ways import BATCH, CLAIM_FOR_S, CONFIG, DRIVER, ENDINGS, MODES, RETRIES, TENANTS, URL

PROGRAM = str(Path(__file__).parent / "driver.py")
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SUBMIT = ("-m", "rmq_spark.submit", "--master", "local[1]", "--driver-java-options", SHORT_LIVED, PROGRAM)
COMMANDS = {"spark": [sys.executable, *SUBMIT, "spark"], "plain": [sys.executable, PROGRAM, "plain"]}

board = Board.here()
on = dg.DefaultSensorStatus.RUNNING
off = dg.DefaultSensorStatus.STOPPED


class DraggedResource(RedisQueueResource):
    """One of whose ticks ends late when `drag` is on: more of them would take all threads of the code server."""

    mode: str

    def client(self, timeout_s: float | None = None) -> Any:
        """As usual; what a tick opens takes long to close."""
        made = super().client(timeout_s)
        if timeout_s is not None:
            self._close_late(made)
        return made

    def _close_late(self, client: Any) -> None:
        close = client.close

        def late() -> None:
            client.close = close  # for redis-py's finalizer, which may run in the thread of any other tick
            dragged = {note["mode"] for note in board.notes("dragged")}
            if board.is_on("drag") and self.mode not in dragged:
                board.note("dragged", self.mode)
                board.wait_while("drag")
            close()

        client.close = late


def work(context: dg.AssetExecutionContext, mode: str, queue: str) -> dg.MaterializeResult[Any]:
    """Claim, do the work, hold if told to, ack."""
    resource: RedisQueueResource = getattr(context.resources, mode)
    run, payloads = context.run.run_id, list[str]()
    try:
        with resource.claimed(context, queue, max_messages=BATCH, config=CONFIG) as batch:
            payloads = batch.payloads
            if batch:
                do(context, mode, payloads)
    except LeaseLost:
        board.note("refused", mode, run=run, payloads=payloads)
        raise
    board.note("acked", mode, run=run, payloads=payloads)
    return dg.MaterializeResult(metadata=batch.metadata)


def do(context: dg.AssetExecutionContext, mode: str, payloads: Sequence[str]) -> None:
    """The work: to write down that it is done."""
    board.note("working", mode, run=context.run.run_id)
    board.note("did", mode, run=context.run.run_id, payloads=payloads)
    board.wait_while("hold")
    if board.is_on("fail") and context.run.parent_run_id is None:
        raise RuntimeError("as told")


@dg.asset(required_resource_keys={"doorbell"})
def doorbell(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    return work(context, "doorbell", "doorbell")


@dg.asset(required_resource_keys={"partition"}, partitions_def=TENANTS.definition)
def partition(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    return work(context, "partition", TENANTS.queue_of(context.partition_key))


@dg.asset(required_resource_keys={"claim"})
def claim(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    return work(context, "claim", "claim")


@dg.asset(required_resource_keys={"spark"})
def spark(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    """The driver does the work and writes it down."""
    board.note("working", "spark", run=context.run.run_id)
    pipes = PipesRedisQueueSparkClient(context.resources.spark, "spark", CONFIG, max_messages=BATCH)
    command = [*COMMANDS[os.environ[DRIVER]], "retry" if context.run.parent_run_id else "first"]
    return pipes.run(context=context, command=command).get_materialize_result()


@dg.op
def occupy() -> None:
    """Sit in a run slot."""
    board.note("occupied", "blocker")
    board.wait_while("block")


@dg.job
def blocker() -> None:
    occupy()


@dg.sensor(job=blocker, minimum_interval_seconds=1, default_status=on)
def blockers(context: dg.SensorEvaluationContext) -> Sequence[dg.RunRequest]:
    """As many as the file `blockers` says, once for each of its contents."""
    asked = board.folder / "blockers"
    if not asked.exists():
        return []
    batch, count = asked.read_text().split()
    return [dg.RunRequest(run_key=f"{batch}:{number}") for number in range(int(count))]


def bell(asset: dg.AssetsDefinition, queue: str | QueuePartitions, **options: Any) -> dg.SensorDefinition:
    """The sensor of one way of working, with a job for it to start."""
    mode = asset.key.to_user_string()
    job = dg.define_asset_job(f"work_{mode}", [asset], tags={"dagster/max_retries": os.environ[RETRIES]})
    return build_redis_queue_sensor(
        queue,
        target=job,
        name=mode,
        batch=BATCH,
        config=CONFIG,
        resource_key=mode,
        minimum_interval_seconds=1,
        default_status=on,
        **options,
    )


endings = [
    sensor
    for name, queues in (("named", ["doorbell", "claim", "spark"]), ("tenants", TENANTS))
    for sensor in redis_queue_status_sensors(
        queues,
        name=name,
        config=CONFIG,
        resource_key="endings",
        minimum_interval_seconds=5,
        default_status=on if os.environ[ENDINGS] == "on" else off,
    )
]

defs = dg.Definitions(
    assets=[doorbell, partition, claim, spark],
    jobs=[blocker],
    sensors=[
        bell(doorbell, "doorbell"),
        bell(partition, TENANTS),
        bell(claim, "claim", claim_for=CLAIM_FOR_S),
        bell(spark, "spark"),
        blockers,
        *endings,
    ],
    resources={
        "endings": RedisQueueResource(url=dg.EnvVar(URL)),
        **{mode: DraggedResource(url=dg.EnvVar(URL), mode=mode) for mode in MODES},
    },
    executor=dg.in_process_executor,
)
