"""The faults: each is a function that causes the fault in a scene and returns when every mode has suffered it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from tests.faults import tally
from tests.faults.dagster.deployment import CODE_SERVER, DAEMON, RUN_WORKER, SLOTS, TICK_TIMEOUT, kill
from tests.faults.dagster.scene import Scene
from tests.faults.dagster.ways import CLAIM_FOR_S, ENDINGS, LEASE_S, MODES, QUEUES, RETRIES

REDIS_AWAY_S = 3


@dataclass(frozen=True)
class Fault:
    """A name, the function that causes the fault, and the environment variables that the deployment needs for it."""

    name: str
    befall: Callable[[Scene], None]
    told: Mapping[str, str] = field(default_factory=dict)


def kill_workers(scene: Scene) -> None:
    """Kill the processes of the runs in the middle of their work."""
    scene.at_work()
    drivers = scene.drivers()
    for pid in scene.workers():
        tally.count("Dagster run worker killed")
        kill(pid)
    scene.see_off(drivers)


def shut_down_workers(scene: Scene) -> None:
    """Send SIGTERM to the processes of the runs, as when their machine is replaced; no request goes to Dagster."""
    runs = {note["run"] for notes in scene.at_work().values() for note in notes}
    for pid in scene.workers():
        tally.count("Dagster run worker shut down")
        os.kill(pid, signal.SIGTERM)
    scene.await_that(lambda: all(_status(scene, run) is dg.DagsterRunStatus.FAILURE for run in runs))


def cancel(scene: Scene) -> None:
    """Somebody presses "Terminate" while the runs work."""
    runs = {note["run"] for notes in scene.at_work().values() for note in notes}
    for run in runs:
        tally.count("Dagster run canceled")
        scene.deployment.cancel(run)
    scene.await_that(lambda: all(_status(scene, run) is dg.DagsterRunStatus.CANCELED for run in runs))


def fail(scene: Scene) -> None:
    """Every first attempt raises; Dagster retries the run."""
    scene.board.turn_on("fail")
    scene.publish()
    tally.count("Dagster run failed", sum(map(len, QUEUES.values())))


def kill_daemon(scene: Scene) -> None:
    """Kill the daemon when every sensor has rung but the daemon has no result yet; then restart `dagster dev`."""
    scene.at_work()
    drag_ticks(scene)
    tally.count("Dagster daemon killed in mid-tick")
    scene.deployment.kill(DAEMON)
    scene.board.turn_off("drag", "hold")  # `dagster dev` ends only after its runs
    scene.deployment.await_end()
    scene.deployment.start()


def kill_code_server(scene: Scene) -> None:
    """Kill the code server and the runs that it started, as when their container ends. Dagster gets no notice."""
    working = scene.at_work()
    scene.orphans = sorted({note["run"] for notes in working.values() for note in notes})
    drivers = scene.drivers()
    tally.count("Dagster code server killed")
    scene.deployment.kill(CODE_SERVER)
    scene.deployment.kill(RUN_WORKER)
    scene.deployment.reload()
    scene.see_off(drivers)


def let_ticks_time_out(scene: Scene) -> None:
    """The daemon gives ticks up, the code server carries them on to their end."""
    drag_ticks(scene)
    scene.await_that(lambda: all(_a_tick_failed(scene, mode) for mode in MODES))
    tally.count("Dagster tick timed out", len(MODES))


def fill_run_queue(scene: Scene) -> None:
    """Let other runs take every slot for longer than a lease, or a claim that a tick has made, should last."""
    scene.board.turn_on("block")
    (scene.board.folder / "blockers").write_text(f"{scene.number} {SLOTS}")
    scene.await_that(lambda: len(scene.board.notes("occupied")) == SLOTS)
    scene.publish()
    scene.await_that(lambda: all(scene.runs(mode) for mode in MODES))
    tally.count("Dagster run queue full")
    time.sleep(max(LEASE_S, CLAIM_FOR_S) + 5)


def restart_redis(scene: Scene) -> None:
    """Kill Redis while runs work, and restart it after a while with every write that it had acknowledged."""
    scene.at_work()
    tally.count("Redis killed and restarted")
    scene.redis.kill9()
    time.sleep(REDIS_AWAY_S)
    scene.redis.restart()
    scene.publish()


def drag_ticks(scene: Scene) -> None:
    """Publish, and return when every sensor has requested runs for the messages in a tick that is kept from ending."""
    scene.publish()
    scene.board.turn_on("drag")
    scene.await_that(lambda: all(scene.notes(mode, "dragged") for mode in MODES))


def _status(scene: Scene, run_id: str) -> dg.DagsterRunStatus | None:
    run = scene.deployment.instance.get_run_by_id(run_id)
    return run.status if run else None


def _a_tick_failed(scene: Scene, sensor: str) -> bool:
    """Return whether a tick of the sensor has failed in this round."""
    instance: Any = scene.deployment.instance
    (state,) = [state for state in instance.all_instigator_state() if state.instigator_name == sensor]
    since = scene.began.timestamp()
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, after=since, limit=100)
    return any(tick.status.value == "FAILURE" for tick in ticks)


WITHOUT_ENDINGS, RETRIED, IMPATIENT = {ENDINGS: "off"}, {RETRIES: "2"}, {TICK_TIMEOUT: "15"}
WORKER_KILLED = Fault("run worker SIGKILL", kill_workers)
DAEMON_KILLED = Fault("daemon killed and restarted in mid-tick", kill_daemon)
SHORT = (WORKER_KILLED, DAEMON_KILLED)
# Faults with the same environment variables share a deployment.
FULL = (
    WORKER_KILLED,
    Fault("run canceled", cancel),
    Fault("run worker SIGTERM", shut_down_workers),
    DAEMON_KILLED,
    Fault("code server killed", kill_code_server),
    Fault("run queue full for longer than the lease", fill_run_queue),
    Fault("Redis restart", restart_redis),
    Fault("tick timeout", let_ticks_time_out, IMPATIENT),
    Fault("run worker SIGKILL, status sensors off", kill_workers, WITHOUT_ENDINGS),
    Fault("run failed and auto-retried", fail, RETRIED),
    Fault("run worker SIGKILL, auto-retried", kill_workers, RETRIED),
)
