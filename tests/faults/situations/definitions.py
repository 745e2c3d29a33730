# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""An asset or a job for each situation: the doorbell of its queue requests runs, as the documentation recommends."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from rmq_dagster import RedisQueueResource, build_redis_queue_sensor, redis_queue_status_sensors
from tests.faults.dagster.ways import URL
from tests.faults.situations.work import BATCH, CONFIG, DAYS, FAN_OUT, LIVE, SHARE, SHARES, rest, work

RUNNING = dg.DefaultSensorStatus.RUNNING
RETRY = dg.RetryPolicy(max_retries=1, delay=5)
AT_ONCE = 4
BATCHES = 10  # a bound: a queue that is published to may never be empty


def consumer(name: str, queue: str, partitions: dg.PartitionsDefinition[str] | None = None) -> dg.AssetsDefinition:
    """An asset that works on several batches of a queue, one after the other."""

    @dg.asset(name=name, retry_policy=RETRY, partitions_def=partitions)
    def consume(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        done = 0
        for turn in range(BATCHES):
            with redis_queue.claimed(context, queue, max_messages=BATCH, on_settled="next", config=CONFIG) as batch:
                done += rest(batch) if turn else work(batch)
            if not batch:
                break
        return dg.MaterializeResult(metadata={"rmq/queue": queue, "rmq/claimed": done})

    return consume


@dg.op(out=dg.DynamicOut(int))
def shares() -> Iterator[dg.DynamicOutput[int]]:
    """A step for each share."""
    for share in range(SHARES):
        yield dg.DynamicOutput(share, mapping_key=str(share))


@dg.op(retry_policy=RETRY)
def take(context: dg.OpExecutionContext, share: int, redis_queue: RedisQueueResource) -> int:
    """Work on one of the shares."""
    with redis_queue.claimed(context, FAN_OUT, max_messages=SHARE, config=CONFIG) as batch:
        return work(batch)


@dg.op
def left(context: dg.OpExecutionContext, taken: list[int], redis_queue: RedisQueueResource) -> int:
    """Process the messages that are left, such as those of a step that was killed and is not retried."""
    count = 0
    while True:
        with redis_queue.claimed(context, FAN_OUT, on_settled="next", config=CONFIG) as batch:
            if not batch:
                return count
            count += rest(batch)


@dg.job(executor_def=dg.multiprocess_executor.configured({"max_concurrent": AT_ONCE}))
def fan_out() -> None:
    left(shares().map(take).collect())


def bell(target: Any, queue: str, **options: Any) -> dg.SensorDefinition:
    """The sensor of a queue."""
    return build_redis_queue_sensor(
        queue, target=target, name=f"bell_{queue}", config=CONFIG, default_status=RUNNING, **options
    )


assets = {name: consumer(name, name) for name in LIVE}
days = consumer(DAYS, "backfill", dg.StaticPartitionsDefinition([f"2026-01-0{day}" for day in range(1, 6)]))
defs = dg.Definitions(
    assets=[*assets.values(), days],
    jobs=[fan_out],
    sensors=[
        *(bell(asset, name, batch=BATCH * BATCHES) for name, asset in assets.items()),
        bell(fan_out, FAN_OUT, batch=SHARES * SHARE, min_messages=SHARES * SHARE),
        *redis_queue_status_sensors([*LIVE, FAN_OUT], config=CONFIG, default_status=RUNNING),
    ],
    resources={"redis_queue": RedisQueueResource(url=dg.EnvVar(URL))},
    executor=dg.in_process_executor,
)
