"""How long a message waits for its run, what a tick costs, and how many runs a batch saves; on a real `dagster dev`."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.tags import CLAIMED, SENSOR
from tests.faults.dagster.bulk import CONFIG, assets
from tests.faults.dagster.deployment import Deployment, deployed
from tests.faults.dagster.page import PAGE
from tests.faults.dagster.ways import URL
from tests.faults.patience import eventually
from tests.faults.report import Figure
from tests.servers import Server
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.slow

SAMPLES, TICKS, MANY = 12, 30, 10**6
LOOP_S = 5  # the daemon's own


@pytest.fixture(scope="module")
def deployment(redis: Server, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("dagster")
    with deployed(folder, postgres, "tests.faults.dagster.bulk", {URL: redis.url}) as running:
        yield running


def runs(deployment: Deployment, bell: str) -> list[dg.RunRecord]:
    """Return the runs that a sensor requested, newest first."""
    return list(deployment.instance.get_run_records(dg.RunsFilter(tags={SENSOR: bell})))


def spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} s, at most {max(seconds):.1f} s"


def test_a_message_waits_for_its_run_no_longer_than_a_loop_of_the_daemon(deployment: Deployment, redis: Server) -> None:
    created, started = [], []
    with LeasedQueue(redis.url, "one", CONFIG) as queue:
        for number in range(SAMPLES):
            time.sleep(random.uniform(0, LOOP_S))
            published = time.time()
            queue.publish(str(number))
            eventually(lambda: sum(queue.stats()[:3]) == 0)
            last = runs(deployment, "bell_one")[0]
            created.append(last.create_timestamp.replace(tzinfo=UTC).timestamp() - published)
            started.append((last.start_time or 0) - published)
    bound = LOOP_S + 1
    PAGE.figures.append(
        Figure("publish to run record", spread(created), f"≤ {bound} s", met=statistics.median(created) <= bound)
    )
    PAGE.figures.append(
        Figure("publish to run started: the run queue's loop and a new process come on top", spread(started), "", True)
    )


@pytest.mark.parametrize(("name", "messages", "most"), [("hundred", 1_000, 11), ("thousand", 10_000, 11)])
def test_a_batch_costs_one_run(deployment: Deployment, redis: Server, name: str, messages: int, most: int) -> None:
    bell = f"bell_{name}"
    with LeasedQueue(redis.url, name, CONFIG) as queue:
        queue.publish_many(str(number) for number in range(messages))
        eventually(lambda: sum(queue.stats()[:3]) == 0)
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    eventually(lambda: all(record.dagster_run.is_finished for record in runs(deployment, bell)))
    claimed = [int(record.dagster_run.tags[CLAIMED]) for record in runs(deployment, bell)]
    assert sum(claimed) == messages
    what = f"runs for {messages:,} messages in batches of {messages // 10:,}, none left"
    PAGE.figures.append(Figure(what, str(len(claimed)), f"≤ {most}", met=len(claimed) <= most))
    assert len(claimed) <= most


def test_a_tick_costs_the_same_however_long_the_queue_is(deployment: Deployment, redis: Server, tmp_path: Path) -> None:
    with LeasedQueue(redis.url, "long", CONFIG) as queue:
        for _ in range(100):
            queue.publish_many([b"x"] * (MANY // 100))
        assert queue.stats().ready == MANY
    bell = build_redis_queue_sensor("long", target=assets[0], batch=100, config=CONFIG)
    resources = {"redis_queue": RedisQueueResource(url=redis.url)}
    milliseconds = []
    for _ in range(TICKS):
        with dg.build_sensor_context(deployment.instance, resources=resources, sensor_name=bell.name) as context:
            began = time.perf_counter()
            result = bell(context)
            milliseconds.append(1000 * (time.perf_counter() - began))
        assert isinstance(result, dg.SensorResult)
        assert len(result.run_requests or ()) == 10
    median = statistics.median(milliseconds)
    reached = f"{median:.0f} ms, at most {max(milliseconds):.0f} ms"
    PAGE.figures.append(Figure(f"tick over {MANY:,} ready messages", reached, "< 200 ms", met=median < 200))
