"""Sensors on a real `dagster dev` with three run slots: a five-line sensor while messages are published all the time,
beside another asset. The full form publishes for five minutes, the short one for 45 s.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster.runs.identity import CLAIMED, SENSOR
from tests.faults.dagster.deployment import Deployment, deployed
from tests.faults.dagster.page import PAGE
from tests.faults.dagster.plain import BATCH, CONFIG
from tests.faults.dagster.ways import URL
from tests.faults.report import Figure
from tests.servers import Server
from tests.servers.postgres import Postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "dagster/test_plain_sensor.py::test_runs_that_have_yet_to_claim_are_not_requested_again_by_further_ticks"
    ),
]

SLOTS, A_SECOND = 3, 10
PUBLISHED_FOR_S = {True: 300, False: 45}
PATIENCE_S = 900


@pytest.fixture(scope="module")
def deployment(redis: Server, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(
        tmp_path_factory.mktemp("dagster"), postgres, "tests.faults.dagster.plain", {URL: redis.url}, SLOTS
    ) as running:
        yield running


def await_that(condition: Callable[[], object], deployment: Deployment) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, deployment.log()
        time.sleep(0.5)


def runs(deployment: Deployment, sensor: str) -> list[dg.RunRecord]:
    """Return the runs that the sensor requested."""
    return list(deployment.instance.get_run_records(dg.RunsFilter(tags={SENSOR: sensor})))


def publish_for(queue: LeasedQueue, seconds: float) -> int:
    """Publish at an even rate, or as fast as the slots process if that is slower; return how many messages."""
    published, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        if sum(queue.stats()[:3]) <= SLOTS * BATCH - A_SECOND:
            queue.publish_many([b"x"] * A_SECOND)
            published += A_SECOND
        time.sleep(1)
    return published


def in_front(other: dg.RunRecord, ours: list[dg.RunRecord]) -> int:
    """Return how many of the sensor's runs waited for a slot when another one was requested."""
    asked = other.create_timestamp.timestamp()
    earlier = [run for run in ours if run.create_timestamp < other.create_timestamp]
    return sum(run.start_time is None or run.start_time > asked for run in earlier)


def test_a_sensor_of_five_lines_requests_no_more_runs_than_its_messages_need(
    deployment: Deployment, redis: Server, *, full_faults: bool
) -> None:
    deployment.board.turn_on("report")
    with LeasedQueue(redis.url, "arrivals", CONFIG) as queue:
        published = publish_for(queue, PUBLISHED_FOR_S[full_faults])
        deployment.board.turn_off("report")
        await_that(lambda: sum(queue.stats()[:3]) == 0, deployment)
    await_that(lambda: all(run.dagster_run.is_finished for run in runs(deployment, "work_is_there")), deployment)
    ours, others = runs(deployment, "work_is_there"), runs(deployment, "reports")
    await_that(lambda: all(run.dagster_run.is_finished for run in runs(deployment, "reports")), deployment)
    needed = math.ceil(published / BATCH)
    waited = [(run.start_time or 0) - run.create_timestamp.timestamp() for run in runs(deployment, "reports")]
    most = max(in_front(other, ours) for other in others)
    figures = [
        (f"runs that a sensor of five lines requested for {published:,} messages", len(ours), needed + 1),
        ("largest number of these that waited for a slot when another asset's run was requested", most, SLOTS),
    ]
    PAGE.figures += [Figure(what, str(reached), f"≤ {bound}", met=reached <= bound) for what, reached, bound in figures]
    wait = f"{statistics.median(waited):.1f} s, at most {max(waited):.1f} s"
    PAGE.figures.append(Figure("the other asset's runs waited for their slot and process", wait, "", met=True))
    print(*PAGE.figures, sep="\n")
    assert sum(int(run.dagster_run.tags[CLAIMED]) for run in ours) == published
    assert len(ours) <= needed + 1
    assert most <= SLOTS
