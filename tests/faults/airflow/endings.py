"""What ends a task that works on a message, and what that means for its messages. Each function returns at once.

The docstrings are part of the report.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import psutil

from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.messages import Message
from tests.faults.airflow.ledger import Ledger
from tests.faults.airflow.scene import PATIENCE_S, World
from tests.servers.process import until

TASK = "work"
SHORT_S, LONG_S = 9, 120
"""Leases that expire before the loop takes them back, which is 10 s after the end at the earliest, and after it."""
CONNECTIONS = {
    f"{place}_{lease_s}": {"lease": lease_s, "db": db}
    for place, db in {"watched": 0, "alone": 1}.items()
    for lease_s in (SHORT_S, LONG_S)
} | {"watched_default": {}}
"""The extras of the tasks' connections. The loop of the API server watches another connection, with the database 0."""


class Cell(NamedTuple):
    """Whether the loop of the API server takes leases back, whether a retry is left, and the lease in seconds."""

    watched: bool
    retries: int
    lease_s: int

    def __str__(self) -> str:
        loop = "with the plugin" if self.watched else "without it"
        return f"{loop}, {self.retries} {'retry' if self.retries == 1 else 'retries'}, lease of {self.lease_s} s"


class Scene:
    """A run whose task stands still in the work on the second of three messages."""

    def __init__(self, world: World, ending: Ending, cell: Cell) -> None:
        self.world, self.ending, self.cell = world, ending, cell
        loop = "watched" if cell.watched else "alone"
        self.name = f"{ending.name.replace(' ', '-')}.{loop}.{cell.retries}.{cell.lease_s}"
        timed = "_timed" if ending.timed else ""
        self.run = (f"ending{timed}_{cell.retries}", self.name)
        self.queue = LeasedQueue(f"{world.redis.url[:-1]}{0 if cell.watched else 1}", self.name, LeasedConfig())
        self.ledger = Ledger(self.name, world.airflow.ledgers)
        self.pid = self.at = 0

    def begin(self) -> None:
        self.queue.publish_many(["first", "second", "third"])
        connection = f"{'watched' if self.cell.watched else 'alone'}_{self.cell.lease_s}"
        conf = {"queue": self.name, "connection": connection, "ending": self.ending.name}
        self.world.airflow.rest.trigger(*self.run, conf)

    def reach(self) -> None:
        if self.ending.befall is not None:
            until(self.ledger.stands, PATIENCE_S, pace_s=0.5)
            self.pid = self.world.airflow.rest.tasks(*self.run)[TASK].pid or 0

    def befall(self) -> None:
        if self.ending.befall is not None:
            self.ending.befall(self)
        self.at = int(time.monotonic())

    def process(self) -> psutil.Process:
        return psutil.Process(self.pid)

    def ended(self) -> bool:
        """Return whether the run has ended and no message is held. Reclaims what has expired, as a consumer would."""
        self.queue.backlog()
        state = self.world.airflow.rest.run_state(*self.run)
        return state in ("success", "failed") and not self.queue.stats().leases

    def waiting(self) -> dict[str, Message]:
        """Return the messages that are ready, by payload."""
        return {str(message.payload): message for message in self.queue.admin.peek(3)}

    def continues(self) -> bool:
        """Return whether another try finishes the work."""
        return self.ending.again == "always" or (self.ending.again == "retry" and self.cell.retries > 0)

    def taken_back(self) -> str:
        """Return how the API server's loop gives the messages back: `Expired`, `Released`, or `` if it does not."""
        by_loop = self.ending.by == "loop" and self.cell.watched and self.cell.lease_s == LONG_S
        return "" if self.continues() or not by_loop else "Expired" if self.ending.counted else "Released"

    def says(self) -> list[str]:
        """Return how the loop says that it gives the messages back.

        A lease that ended before the loop came is reclaimed by a consumer, unless the loop is the first to find it.
        """
        first = self.ending.befall is lose_heartbeats and self.cell.watched and not self.continues()
        return ["Expired"] if first else [self.taken_back()] if self.taken_back() else []

    def counts(self) -> int:
        """Return how many failed deliveries the message in work has: the end of a lease counts one, too."""
        expires = self.ending.by == "loop" and not self.taken_back()
        return int(self.ending.counted or expires)

    def logged(self) -> list[str]:
        """Return what the API server's loop logged of this queue: the first word of each line, and why."""
        log = self.world.airflow.log("api-server").read_text(errors="replace")
        return [line for line in log.splitlines() if f"of queue {self.name}:" in line]


def kill_task(scene: Scene) -> None:
    """SIGKILL to the process of the task, as when memory runs out; its supervisor lives."""
    scene.process().kill()


def kill_supervisor(scene: Scene) -> None:
    """SIGKILL to the supervisor, and then to the task, which would go on without one."""
    task = scene.process()
    supervisor = psutil.Process(task.ppid())
    assert supervisor.name().startswith("airflow worker"), supervisor
    supervisor.kill()
    task.kill()


def lose_heartbeats(scene: Scene) -> None:
    """Supervisor and task stand still (SIGSTOP) until Airflow has given the try up; then they are killed."""
    task = scene.process()
    both = [psutil.Process(task.ppid()), task]
    for process in both:
        process.suspend()
    until(lambda: scene.world.airflow.rest.tasks(*scene.run)[TASK].state != "running", PATIENCE_S, pace_s=0.5)
    for process in both:
        process.kill()


def end_supervisor(scene: Scene) -> None:
    """SIGTERM to the supervisor, as when a worker shuts down."""
    psutil.Process(scene.process().ppid()).send_signal(signal.SIGTERM)


def time_out(scene: Scene) -> None:
    """The task runs into its `execution_timeout`."""


def clear(scene: Scene) -> None:
    """The task is cleared while it runs."""
    scene.world.airflow.rest.clear(*scene.run, TASK)


def mark(state: str) -> Callable[[Scene], None]:
    def marked(scene: Scene) -> None:
        scene.world.airflow.rest.mark(*scene.run, TASK, state)

    marked.__doc__ = f"The task is marked {state} while it runs."
    return marked


def mark_run(scene: Scene) -> None:
    """The run is marked failed while the task runs."""
    scene.world.airflow.rest.mark_run(*scene.run, "failed")


def mark_dead(scene: Scene) -> None:
    """Supervisor and task stand still, the task is marked failed, and both are killed: only the loop can release."""
    task = scene.process()
    both = [psutil.Process(task.ppid()), task]
    for process in both:
        process.suspend()
    mark("failed")(scene)
    for process in both:
        process.kill()


class Ending(NamedTuple):
    """What ends a task. counted: whether the message in work counts a failed delivery.

    again: `retry` if the work goes on in a retry, `always` if it goes on without one, `never` if there is no retry.
    by: who gives the messages back: the `task`, or the `loop` of the API server, or else the end of the lease.
    """

    name: str
    befall: Callable[[Scene], None] | None
    counted: bool
    again: str
    by: str
    timed: bool = False


ENDINGS: Sequence[Ending] = (
    Ending("exception", None, True, "always", "task"),
    Ending("timeout", time_out, True, "retry", "task", timed=True),
    Ending("SIGKILL of the task", kill_task, True, "retry", "loop"),
    Ending("SIGKILL of the supervisor", kill_supervisor, True, "retry", "loop"),
    Ending("heartbeat lost", lose_heartbeats, True, "retry", "loop"),
    Ending("SIGTERM of the worker", end_supervisor, False, "retry", "task"),
    Ending("clear", clear, False, "always", "task"),
    Ending("marked success", mark("success"), False, "never", "task"),
    Ending("marked failed", mark("failed"), False, "never", "task"),
    Ending("marked skipped", mark("skipped"), False, "never", "task"),
    Ending("run marked failed", mark_run, False, "never", "task"),
    Ending("marked failed when dead", mark_dead, False, "never", "loop"),
)
CELLS = [
    Cell(watched, retries, lease) for watched in (True, False) for retries in (0, 1) for lease in (LONG_S, SHORT_S)
]
SHORT = (
    ("SIGKILL of the task", CELLS[0]),
    ("marked failed when dead", CELLS[0]),
    ("SIGKILL of the supervisor", CELLS[5]),
)


def scenes(world: World, *, full: bool) -> list[Scene]:
    """Return half of all combinations, so that any two values of two columns meet; a few in the short form."""
    by_name = {ending.name: ending for ending in ENDINGS}
    if not full:
        return [Scene(world, by_name[name], cell) for name, cell in SHORT]
    return [
        Scene(world, ending, cell)
        for number, ending in enumerate(ENDINGS)
        for cell in CELLS
        if (cell.watched + cell.retries + (cell.lease_s == LONG_S) + number) % 2
    ]
