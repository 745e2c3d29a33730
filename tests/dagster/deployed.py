# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""The definitions that the daemon of the tests loads: a sensor, and an asset whose driver fails the first time.

Environment variables TEST_... configure them. The queue itself is an asset whose observation has no schedule. `letters`
is an asset of partitions, whose steps one pool limits. `report` is made when all of a publication is done.
"""

import os
from typing import Any

import dagster as dg

from rmq_dagster import (
    RedisQueueResource,
    build_redis_queue_sensor,
    redis_queue_definitions,
    redis_queue_publication_sensor,
)
from rmq_dagster.components import RedisQueueConsumeComponent
from tests.dagster.pipeline import CONFIG, Work, worked

bell = build_redis_queue_sensor(
    os.environ["TEST_QUEUE"],
    target=worked,
    name="bell",
    batch=10,
    max_in_flight_runs=3,
    config=CONFIG,
    minimum_interval_seconds=1,
    default_status=dg.DefaultSensorStatus.RUNNING,
)


@dg.asset
def report() -> None: ...


reporter = redis_queue_publication_sensor(
    f"{os.environ['TEST_QUEUE']}_counted",
    target=[report],
    name="reporter",
    minimum_interval_seconds=1,
    default_status=dg.DefaultSensorStatus.RUNNING,
)

letters = RedisQueueConsumeComponent(
    queue=f"{os.environ['TEST_QUEUE']}_letters",
    asset=dg.AssetSpec("letters"),
    function="tests.dagster.callables.work",
    partitions="countries",
    pool="printers",
)

resources: dict[str, Any] = {
    "redis_queue": RedisQueueResource(url=dg.EnvVar("TEST_RMQ_URL")),
    "work": Work(queue=os.environ["TEST_QUEUE"], behaviours=["fail", "adopt"], seen=os.environ["TEST_SEEN"]),
}

defs = dg.Definitions.merge(
    redis_queue_definitions(
        f"{os.environ['TEST_QUEUE']}_watched", target=worked, default_status=dg.DefaultSensorStatus.RUNNING
    ),
    letters.build_defs(dg.ComponentTree.for_test().load_context),
    dg.Definitions(
        assets=[worked, report], sensors=[bell, reporter], resources=resources, executor=dg.in_process_executor
    ),
)
