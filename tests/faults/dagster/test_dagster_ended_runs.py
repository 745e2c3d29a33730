"""A run that is terminated or deleted between two tries: what it kept for its retry is ready again within 30 s.

The full form ends a run of each kind in each way; the short form three.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster.runs.claiming import is_kept
from rmq_dagster.runs.identity import SENSOR
from tests.faults.dagster.deployment import LANE, Deployment, deployed
from tests.faults.dagster.page import PAGE
from tests.faults.dagster.waiting import CONFIG, QUEUES, RUN_WAITS
from tests.faults.dagster.ways import URL
from tests.faults.report import Figure
from tests.servers import Server
from tests.servers.postgres import Postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "dagster/test_holders.py::test_the_lease_of_a_failed_run_waits_for_its_retry_until_that_is_canceled_or_deleted"
    ),
]

PATIENCE_S, LOOK_S = 600, 0.2
BOUND_S = 30
MESSAGES = ["a", "b"]
SHORT = ("in_one_process_terminated", "in_processes_deleted", "run_retried_deleted")


@pytest.fixture(scope="module")
def deployment(redis: Server, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("dagster")
    with deployed(folder, postgres, "tests.faults.dagster.waiting", {URL: redis.url}) as running:
        yield running


@pytest.fixture
def queues(redis: Server, *, full_faults: bool) -> Iterator[dict[str, LeasedQueue]]:
    opened = {name: LeasedQueue(redis.url, name, CONFIG) for name in (QUEUES if full_faults else SHORT)}
    yield opened
    for queue in opened.values():
        queue.close()


@pytest.fixture
def await_that(deployment: Deployment) -> Callable[[Callable[[], object]], None]:
    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, deployment.log()
            time.sleep(LOOK_S)

    return wait


def between_two_tries(deployment: Deployment, queue: LeasedQueue) -> dg.DagsterRun | None:
    """Return the run to end: the one whose step waits, or the one that retries the failed run."""
    kept = [lease.owner for lease in queue.admin.leases() if is_kept(lease, CONFIG)]
    if not kept:
        return None
    if QUEUES[queue.name][0] != RUN_WAITS:
        return deployment.instance.get_run_by_id(kept[0])
    waiting = dg.RunsFilter(
        tags={LANE: queue.name, SENSOR: f"bell_{queue.name}"}, statuses=[dg.DagsterRunStatus.QUEUED]
    )
    return next(iter(deployment.instance.get_runs(waiting)), None)


def test_messages_kept_for_a_retry_are_ready_again_soon_after_the_run_was_ended(
    deployment: Deployment, queues: dict[str, LeasedQueue], await_that: Callable[[Callable[[], object]], None]
) -> None:
    board = deployment.board
    board.turn_on("fail", "hold")
    for queue in queues.values():
        queue.publish_many(MESSAGES)
    await_that(lambda: all(queue.stats().leases for queue in queues.values()))
    board.turn_on("block")  # the retries of runs wait behind these
    blocked = dg.RunsFilter(job_name="blocker")
    await_that(
        lambda: len(deployment.instance.get_runs(blocked)) == sum(way == RUN_WAITS for way, _ in QUEUES.values())
    )
    board.turn_off("hold")
    await_that(lambda: all(between_two_tries(deployment, queue) for queue in queues.values()))
    board.turn_off("fail")
    seconds = {}
    for name in sorted(queues, key=lambda name: QUEUES[name][1]):  # the deleted ones first: they emit nothing
        queue = queues[name]
        run = between_two_tries(deployment, queue)
        assert run is not None
        (deployment.cancel if QUEUES[name][1] == "terminated" else deployment.delete)(run.run_id)
        ended = time.monotonic()
        await_that(lambda queue=queue: not any(is_kept(lease, CONFIG) for lease in queue.admin.leases()))  # type: ignore[misc]
        seconds[name] = time.monotonic() - ended
    board.turn_off("block")
    for name in queues:
        what = "a run that waits for a retry ({}) is {}: until its messages are ready".format(*QUEUES[name])
        PAGE.figures.append(Figure(what, f"{seconds[name]:.1f} s", f"≤ {BOUND_S} s", met=seconds[name] <= BOUND_S))
    await_that(lambda: all(sum(queue.stats()[:3]) == 0 for queue in queues.values()))
    done = {name: [note["payloads"] for note in board.notes("did") if note["mode"] == name] for name in queues}
    assert done == {name: [MESSAGES] for name in queues}
    assert all(queue.stats().dead == 0 for queue in queues.values())
