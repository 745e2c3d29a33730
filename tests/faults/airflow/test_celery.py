"""Workers, schedulers, triggerers and the broker of CeleryExecutor die: no message is lost, none is held for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from operator import methodcaller

import pytest

from rmq_core import LeasedQueue
from tests.faults import report
from tests.faults.airflow.conftest import environment_of
from tests.faults.airflow.ledger import Ledger
from tests.faults.airflow.outages import OUTAGES, SHORT, Outage
from tests.faults.airflow.pools import POOL, RUNS, SHARE, SLOTS, TASKS
from tests.faults.airflow.scene import KEY, LEASE_S, PATIENCE_S, STATES, TOTAL, ZEROS, Count, Scene
from tests.faults.airflow.wire import Wire
from tests.faults.airflow.workers import QUEUED_S, WORKERS, Cluster, Flow, Queued, running_cluster, scenes_of
from tests.servers import start_server
from tests.servers.process import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("airflow/test_consume.py::test_the_retry_of_a_sigkilled_try_processes_its_messages"),
]
NAMES = {**STATES, "flow": "publish, wait, consume", "queued": "waiting in the broker"}
HEAD = f"""# CeleryExecutor

What the end of a part costs, counted on a real Airflow: CeleryExecutor with two workers, two schedulers and two
triggerers, a Redis as broker, PostgreSQL for metadata and results. Each run has {TOTAL} messages of its own, under
leases of {LEASE_S} s. Airflow takes a task for dead after 20 s without a heartbeat and retries it after 5 s. The
scheduler queues a task again that no worker began in {QUEUED_S} s (`task_queued_timeout`, by default 600). Made by
`make faults`; do not edit.
"""
SECONDS = "- **seconds**: from the fault to the end of the run, which stood still until the fault was over.\n"
FOUND = "\n".join(f"- **{outage.name}**: {outage.befall.__doc__}" for outage in OUTAGES)
PAGE = report.page("airflow-celery", HEAD, f"{KEY}{SECONDS}\n{FOUND}\n", ZEROS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "outage" in metafunc.fixturenames:
        outages = OUTAGES if metafunc.config.getoption("faults") == "full" else SHORT
        metafunc.parametrize("outage", outages, ids=lambda outage: outage.key)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    redis = start_server("7.0", "--appendonly", "yes", "--appendfsync", "always")
    with Wire(redis.port) as wire, running_cluster(environment_of(wire, full=False), redis, wire) as running:
        yield running
    redis.stop()


def test_the_end_of_a_part_loses_nothing_and_leaves_nothing_behind(cluster: Cluster, outage: Outage) -> None:
    scenes = scenes_of(cluster, outage.key, outage.states)
    over, hit = befall(cluster, outage, scenes)
    counts = [scene.count(over) for scene in scenes]
    for scene, count in zip(scenes, counts, strict=True):
        PAGE.cells.append(report.Cell(outage.name, mode_of(scene), counted(scene, count, hit)))
        scene.close()
    for scene, count in zip(scenes, counts, strict=True):
        assert {name: getattr(count, name) for name in ZEROS} == dict.fromkeys(ZEROS, 0), (scene.name, count)
        assert count.ended == "success", (scene.name, count)


def befall(cluster: Cluster, outage: Outage, scenes: Sequence[Scene]) -> tuple[float, datetime]:
    """Let the outage hit the scenes; return when it was over, monotonic, and when it hit them, by the clock."""
    waiting = [scene for scene in scenes if isinstance(scene, Queued)]
    running = [scene for scene in scenes if not isinstance(scene, Queued)]
    if outage.environment:
        cluster.world.airflow.end(WORKERS[0])
        cluster.start(WORKERS[0], **outage.environment)
    cluster.let_work(*WORKERS[: 1 if outage.worker else 2])
    reach(running)
    if waiting:
        cluster.let_work()
        reach(waiting)
    if outage.worker:
        cluster.let_work(*WORKERS)
    hit = datetime.now(UTC)
    outage.befall(cluster, scenes)
    for scene in scenes:
        scene.go_on()
    cluster.let_work(*WORKERS)
    return time.monotonic(), hit


def reach(scenes: Sequence[Scene]) -> None:
    """Bring the scenes into their states; those that never stand still, when the others stand."""
    for goes in (False, True):
        group = [scene for scene in scenes if isinstance(scene, Flow) == goes]
        for step in (methodcaller("begin"), methodcaller("reach")):
            for scene in group:
                step(scene)


def mode_of(scene: Scene) -> str:
    return NAMES["queued" if isinstance(scene, Queued) else scene.state]


def counted(scene: Scene, count: Count, since: datetime) -> dict[str, int]:
    """Return the counts as they are reported."""
    ended = scene.world.airflow.rest.run_ended(*scene.run)
    return {**count.shown(), "seconds": round((ended - since).total_seconds())}


def test_tasks_of_several_runs_share_a_queue_within_their_bound(cluster: Cluster) -> None:
    rest = cluster.world.airflow.rest
    rest.create_pool(POOL, SLOTS)
    names = ("pooled", "bounded")
    runs = [(name, str(number)) for name in names for number in range(RUNS)]
    payloads = [str(number) for number in range(RUNS * TASKS * SHARE)]
    with ExitStack() as stack:
        queues = [stack.enter_context(LeasedQueue(cluster.world.redis.url, name)) for name in names]
        for queue in queues:
            queue.publish_many(payloads)
        for dag_id, run_id in runs:
            rest.trigger(dag_id, run_id, {"queue": dag_id})
        seen: dict[str, set[int]] = {name: set() for name in names}

        def ended() -> bool:
            for queue in queues:
                seen[queue.name].add(len(queue.admin.leases()))
            return all(rest.run_state(*run) in ("success", "failed") for run in runs)

        until(ended, PATIENCE_S, pace_s=0.5)
        for queue in queues:
            assert max(seen[queue.name]) == SLOTS, seen
            assert queue.stats()[:5] == (0, 0, 0, 0, 0)
            ledger = Ledger(queue.name, cluster.world.airflow.ledgers)
            assert sorted(ledger.effects().values()) == sorted(payloads)
            assert ledger.twice() == 0
