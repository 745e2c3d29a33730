"""A task failed and kept its messages for a retry that a user cancels: they are ready again soon, and only once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import httpx
import pytest

from tests.faults import report
from tests.faults.airflow.kept import MARKS, SHORT, Kept, fail_and_keep, time_until_ready
from tests.faults.airflow.scene import PATIENCE_S, TOTAL, Scene, World
from tests.faults.report import Figure
from tests.servers.process import free_port, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "airflow/plugin/test_releases.py::test_a_task_that_still_runs_or_will_be_retried_keeps_its_messages"
    ),
]
BOUND_S = 30
AWAY_S = 60
API_SERVER, SECOND = "api-server", "api-server-2"
HEAD = f"""# Leases that are kept for nobody, in Airflow

A task of a real Airflow fails with retries left, and keeps the lease of its {TOTAL} messages for the retry, which is an
hour away. Then somebody does what the first column says, and no retry comes. Measured is the time until all of the
messages are ready again, from the answer of Airflow's REST API on, or from the moment when Redis is back.
"""
PAGE = report.page("airflow-kept-leases", HEAD, "", ())


@pytest.fixture(scope="module")
def handed_over(deployed: World) -> Iterator[Scene]:
    """A sensor that handed over and succeeded long before the next task adopts; it outlives all rounds."""
    scene = Scene(deployed, "kept-meanwhile", "handover", timed=False)
    scene.begin()
    scene.reach()
    yield scene
    scene.close()


@pytest.fixture
def marks(pytestconfig: pytest.Config) -> Sequence[str]:
    return tuple(MARKS) if pytestconfig.getoption("faults") == "full" else SHORT


@pytest.fixture
def only_in_full(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("faults") != "full":
        pytest.skip("in full length only")


@pytest.fixture(scope="module")
def second_server(deployed: World) -> Iterator[None]:
    """Another API server on the same database, until the end of these tests."""
    port = str(free_port())
    deployed.airflow.start(API_SERVER, SECOND, AIRFLOW__API__PORT=port)

    def answers() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/api/v2/version", timeout=5).is_success
        except httpx.HTTPError:
            return False

    until(answers, PATIENCE_S, pace_s=1)
    yield
    deployed.airflow.end(SECOND)
    del deployed.airflow.parts[SECOND]


def test_messages_are_ready_again_soon_after_the_retry_was_cancelled(
    deployed: World, handed_over: Scene, marks: Sequence[str]
) -> None:
    kept = fail_and_keep(deployed, 0, marks)
    conclude(deployed, kept, befall(kept), "")
    assert_pending(handed_over)


@pytest.mark.usefixtures("only_in_full", "second_server")
def test_two_api_servers_release_each_lease_once(deployed: World, handed_over: Scene, marks: Sequence[str]) -> None:
    kept = fail_and_keep(deployed, 1, marks)
    conclude(deployed, kept, befall(kept), ", two API servers")
    assert_pending(handed_over)


@pytest.mark.usefixtures("only_in_full", "second_server")
def test_messages_are_ready_soon_after_an_outage_of_redis_of_a_minute(
    deployed: World, handed_over: Scene, marks: Sequence[str]
) -> None:
    kept = fail_and_keep(deployed, 2, marks)
    deployed.wire.silence()
    befall(kept)
    time.sleep(AWAY_S)
    assert [one.ready() for one in kept.values()] == [0] * len(kept)
    deployed.wire.speak()
    back = time.monotonic()
    conclude(deployed, kept, dict.fromkeys(kept, back), ", two API servers, Redis away for a minute")
    assert_pending(handed_over)


def test_a_hand_over_made_in_the_meantime_is_processed_by_the_task_that_adopts_it(
    deployed: World, handed_over: Scene
) -> None:
    assert_pending(handed_over)
    handed_over.go_on()
    until(lambda: deployed.airflow.rest.run_state(*handed_over.run) in ("success", "failed"), PATIENCE_S, pace_s=1)
    assert deployed.airflow.rest.run_state(*handed_over.run) == "success"
    assert handed_over.queue.stats()[:5] == (0, 0, 0, 0, 0)
    assert (handed_over.ledger.twice(), len(handed_over.ledger.effects())) == (0, TOTAL)


def befall(kept: Mapping[str, Kept]) -> dict[str, float]:
    """Do each action, one after the other; return when each was done, monotonic."""
    done = {}
    for mark, one in kept.items():
        MARKS[mark](one)
        done[mark] = time.monotonic()
    return done


def conclude(world: World, kept: Mapping[str, Kept], since: Mapping[str, float], where: str) -> None:
    """Measure, write the figures to the page, and assert that each lease was released once."""
    took = time_until_ready(kept, since)
    for mark, seconds in ((mark, took[mark]) for mark in kept):
        PAGE.figures.append(Figure(f"{mark}{where}", f"{seconds:.1f} s", f"≤ {BOUND_S} s", met=seconds <= BOUND_S))
    assert [mark for mark, one in kept.items() if not one.whole()] == []
    for one in kept.values():
        assert said(world, f"of queue {one.name}:") == 1, one.name
        one.close()
    assert {mark: seconds for mark, seconds in took.items() if seconds > BOUND_S} == {}


def assert_pending(scene: Scene) -> None:
    """Assert that the sensor still owns the whole lease, although it has ended."""
    tasks = scene.world.airflow.rest.tasks(*scene.run)
    assert tasks["wait"].state == "success"
    (lease,) = scene.queue.admin.leases()
    assert (lease.count, lease.settled) == (TOTAL, 0)
    assert "/wait/" in lease.owner


def said(world: World, words: str) -> int:
    """Return how many of the releases that API servers logged are about this run."""
    logs = [
        world.airflow.log(name).read_text(errors="replace")
        for name in (API_SERVER, SECOND)
        if name in world.airflow.parts
    ]
    return sum("Released lease" in line and words in line for log in logs for line in log.splitlines())
