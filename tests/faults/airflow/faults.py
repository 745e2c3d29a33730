"""The faults, one function each: it returns when the fault is over, or when it will not recover further by itself.

The reference contains their docstrings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import psutil

from tests.faults.airflow.scene import PATIENCE_S, STATES, Scene, World
from tests.servers.process import until

CUT_S = 60
DOWN_S = 5
ORPHANED_S = 40  # by then the new scheduler takes the old one for dead, and does what it does about its tasks
Befall = Callable[[World, Sequence[Scene]], None]


class Fault(NamedTuple):
    """`impossible` states why it cannot hit a state; `fatal` are the states whose run it fails, by Airflow's rules.

    `timed` tasks have an execution_timeout.
    """

    name: str
    befall: Befall
    impossible: Mapping[str, str] = {}
    fatal: Collection[str] = ()
    timed: bool = False

    @property
    def key(self) -> str:
        return self.name.lower().replace(" ", "-")


def kill_worker(world: World, scenes: Sequence[Scene]) -> None:
    """SIGKILL to the task's process and to its supervisor, a process of the LocalExecutor."""
    del world
    for scene in scenes:
        task = scene.process()
        supervisor = psutil.Process(task.ppid())
        assert supervisor.name().startswith("airflow worker"), supervisor
        for process in (supervisor, task):
            process.kill()
    for scene in scenes:
        scene.await_drivers()  # with the gate open they might be done before they notice


def clear(world: World, scenes: Sequence[Scene]) -> None:
    """The task is cleared; where a hand-over is pending, the sensor that made it and all that follows."""
    for scene in scenes:
        world.airflow.rest.clear(*scene.run, "wait" if scene.state == "handover" else scene.victim)
    _wait_for_victims(scenes)


def mark_failed(world: World, scenes: Sequence[Scene]) -> None:
    """The task is marked failed; where a hand-over is pending, the task that stands between."""
    for scene in scenes:
        world.airflow.rest.mark_failed(*scene.run, scene.victim)
    _wait_for_victims(scenes)


def time_out(world: World, scenes: Sequence[Scene]) -> None:
    """The task runs into its `execution_timeout`, which fails a deferred sensor for good, and others until a retry."""
    del world
    for scene in scenes:
        until(scene.victim_is_tried_again, PATIENCE_S, pace_s=1)


def kill_triggerer(world: World, scenes: Sequence[Scene]) -> None:
    """SIGKILL to the triggerer and all it started; another one starts at once."""
    del scenes
    world.airflow.kill("triggerer", whole_session=True)
    world.airflow.start("triggerer")


def end_triggerer(world: World, scenes: Sequence[Scene]) -> None:
    """SIGTERM; another one starts when it has ended, as in a rolling deployment."""
    del scenes
    world.airflow.end("triggerer")
    world.airflow.start("triggerer")


def restart_scheduler(world: World, scenes: Sequence[Scene]) -> None:
    """SIGKILL; another one starts at once, and finds the tasks of the first still running."""
    del scenes
    world.airflow.kill("scheduler")
    world.airflow.start("scheduler")
    time.sleep(ORPHANED_S)


def restart_redis(world: World, scenes: Sequence[Scene]) -> None:
    """SIGKILL; it is back after five seconds with what its append-only file holds (`appendfsync always`)."""
    del scenes
    world.redis.kill9()
    time.sleep(DOWN_S)
    world.redis.restart()


def cut_network(world: World, scenes: Sequence[Scene]) -> None:
    """Nothing passes for 60 s. Somebody else gets the expired work meanwhile; then its old holders are heard again."""
    started = time.monotonic()
    world.wire.silence()
    working = [scene for scene in scenes if scene.state in ("consume", "spark")]
    while time.monotonic() < started + CUT_S * 3 / 4:
        for scene in working:
            scene.take_expired()
        time.sleep(1)
    for scene in working:
        scene.ledger.open_gate()  # they try to settle while nobody hears them
    time.sleep(max(0.0, started + CUT_S - time.monotonic()))
    world.wire.speak()


def _wait_for_victims(scenes: Sequence[Scene]) -> None:
    """Airflow ends a task's process at its next heartbeat."""
    for scene in scenes:
        until(scene.victim_is_gone, PATIENCE_S, pace_s=0.2)


WORKER = Fault("worker SIGKILL", kill_worker, {"deferred": "a deferred sensor has no worker process"})
CLEAR = Fault("task clear", clear)
TERM = Fault("triggerer SIGTERM", end_triggerer)
FAULTS = (
    WORKER,
    CLEAR,
    Fault("mark failed", mark_failed, fatal=STATES),
    Fault("execution timeout", time_out, fatal=("deferred",), timed=True),
    Fault("triggerer SIGKILL", kill_triggerer),
    TERM,
    Fault("scheduler SIGKILL", restart_scheduler),
    Fault("Redis restart", restart_redis),
    Fault("network cut", cut_network),
)
SHORT = (WORKER, CLEAR, TERM)
