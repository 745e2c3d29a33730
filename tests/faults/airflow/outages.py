"""What happens to a part of Airflow on CeleryExecutor, one function each; it returns when the part is back.

The report contains their docstrings.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import psutil

from tests.faults.airflow.scene import PATIENCE_S, Scene
from tests.faults.airflow.workers import WORKERS, Cluster
from tests.servers.process import until

DOWN_S = 5
RUNNING = ("consume", "spark", "handover")
EVERYWHERE = (*RUNNING, "deferred", "flow")
Befall = Callable[[Cluster, Sequence[Scene]], None]


class Outage(NamedTuple):
    """`states` are those of the runs that it hits; a `worker` fault hits tasks that are all at the first worker.

    `environment` are variables of the first worker.
    """

    name: str
    befall: Befall
    states: Sequence[str] = EVERYWHERE
    worker: bool = False
    environment: Mapping[str, str] = {}

    @property
    def key(self) -> str:
        return self.name.lower().replace(" ", "-").replace(",", "")


def kill_worker(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGKILL to a worker and all that it started, as when its machine fails; the other one takes over."""
    _at_first(cluster, scenes)
    cluster.world.airflow.kill(WORKERS[0], whole_session=True)
    cluster.start(WORKERS[0])


def kill_pool_process(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGKILL to the tasks and to the processes of the worker's pool that supervise them, as by the OOM killer."""
    _at_first(cluster, scenes)
    for scene in _standing(scenes):
        task = scene.process()
        for process in (psutil.Process(task.ppid()), task):
            process.kill()


def end_worker(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGTERM, a warm shutdown: the worker ends when its tasks have ended."""
    _at_first(cluster, scenes)
    cluster.world.airflow.parts[WORKERS[0]].terminate()
    for scene in scenes:
        scene.ledger.open_gate()
    cluster.world.airflow.parts[WORKERS[0]].wait(PATIENCE_S)
    cluster.start(WORKERS[0])


def stop_worker(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGQUIT, a soft and then cold shutdown: after five seconds the worker stops its tasks, and ends."""
    _at_first(cluster, scenes)
    cluster.world.airflow.parts[WORKERS[0]].send_signal(signal.SIGQUIT)
    for scene in _standing(scenes):
        if scene.state == "handover":
            scene.ledger.open_gate()  # it stands in a task of Airflow's, which SIGTERM does not stop
        until(scene.victim_is_gone, PATIENCE_S, pace_s=0.2)
    cluster.world.airflow.parts[WORKERS[0]].wait(PATIENCE_S)
    cluster.start(WORKERS[0])


def orphan_tasks(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGTERM to a worker with `REMAP_SIGTERM=SIGQUIT`: its tasks outlive it, and go on when their retries run."""
    _at_first(cluster, scenes)
    cluster.world.airflow.end(WORKERS[0])
    for scene in _standing(scenes):
        until(partial(_runs_again, scene), PATIENCE_S, pace_s=1)
        assert not scene.victim_is_gone()
    cluster.start(WORKERS[0])


def _runs_again(scene: Scene) -> bool:
    task = scene.task()
    return task.try_number > 1 and task.state == "running"


def kill_scheduler(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGKILL to the scheduler that queued the running task; the other one adopts what it had."""
    _kill(cluster, cluster.host("scheduler", _one(scenes, "consume")))


def kill_triggerer(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGKILL to the triggerer in which sensors wait; the other one takes them over."""
    _kill(cluster, cluster.host("triggerer", _one(scenes, "deferred")))


def restart_broker(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGKILL; it is back after five seconds with what its append-only file holds (`appendfsync always`)."""
    del scenes
    cluster.broker.kill9()
    time.sleep(DOWN_S)
    cluster.broker.restart()


def empty_broker(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """SIGKILL; it is back after five seconds, and empty, like one that keeps nothing on disk."""
    with cluster.broker.client() as client:
        client.flushall()
    restart_broker(cluster, scenes)


def deliver_again(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """The tasks run for longer than the `visibility_timeout` of the broker, which delivers them to a worker again."""
    del scenes
    cluster.deliver_again()


def _kill(cluster: Cluster, name: str) -> None:
    cluster.world.airflow.kill(name, whole_session=True)
    cluster.start(name)


def _at_first(cluster: Cluster, scenes: Sequence[Scene]) -> None:
    """Assert that all tasks run at the first worker."""
    assert {cluster.host("worker", scene) for scene in _standing(scenes)} == {WORKERS[0]}


def _standing(scenes: Iterable[Scene]) -> list[Scene]:
    return [scene for scene in scenes if scene.state in RUNNING]


def _one(scenes: Iterable[Scene], state: str) -> Scene:
    return next(scene for scene in scenes if scene.state == state)


WORKER = Outage("worker SIGKILL", kill_worker, (*RUNNING, "flow"), worker=True)
TRIGGERER = Outage("triggerer SIGKILL", kill_triggerer, ("deferred", "deferred", "deferred", "flow"))
REMAPPED = {"REMAP_SIGTERM": "SIGQUIT"}
BROKER = (*EVERYWHERE, "queued")
OUTAGES = (
    WORKER,
    Outage("pool process SIGKILL", kill_pool_process, RUNNING, worker=True),
    Outage("worker SIGTERM", end_worker, (*RUNNING, "flow"), worker=True),
    Outage("worker SIGQUIT", stop_worker, (*RUNNING, "flow"), worker=True),
    Outage("worker SIGTERM, remapped", orphan_tasks, RUNNING, worker=True, environment=REMAPPED),
    Outage("scheduler SIGKILL", kill_scheduler, BROKER),
    TRIGGERER,
    Outage("broker SIGKILL, kept", restart_broker, BROKER),
    Outage("broker SIGKILL, emptied", empty_broker, BROKER),
    Outage("delivered again", deliver_again),
)
SHORT = (WORKER, TRIGGERER)
