"""One state under one fault: a queue, a run of the state's DAG, and the count of what the fault cost."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from typing import NamedTuple

import psutil

from rmq_core import LeasedConfig, LeasedQueue
from tests.faults.airflow.deployment import Deployment, drivers_of
from tests.faults.airflow.ledger import Ledger, fence_of
from tests.faults.airflow.rest import TaskState
from tests.faults.airflow.wire import Wire
from tests.servers import Server
from tests.servers.process import until

TOTAL = 20
LEASE_S = 20
STUCK_S = LEASE_S + 60
PATIENCE_S = 600
SURVIVAL_S = 120
NOTICED_S = 120  # by then even a busy Airflow has noticed that the process of a task has ended
STATES = {
    "deferred": "sensor deferred",
    "consume": "consume running",
    "spark": "Spark running",
    "handover": "hand-over pending",
}
VICTIMS = {"deferred": "wait", "consume": "take", "spark": "submit", "handover": "between", "flow": "take"}
"""The task of each DAG that is in that state."""


ZEROS = ("lost", "doubled", "stale", "stuck", "survivors")
"""The counts that must be 0."""
KEY = """- **lost**: messages that had no effect and are not in the queue either.
- **processed twice**: second deliveries of a message; delivery is at least once, so a holder that dies costs some.
- **doubled**: rows too many in a sink that is keyed by the message's id.
- **stale**: acks that were accepted from somebody who no longer held the message.
- **stuck**: messages or tasks without a worker that no retry, timeout or expiry brings back.
- **survivors**: drivers that outlived their task.
- **tries**: in which try the task succeeded.
"""


class World(NamedTuple):
    """The parts that faults hit. Tasks reach Redis through the relay, the tests directly."""

    airflow: Deployment
    redis: Server
    wire: Wire


class Count(NamedTuple):
    """The effect of a fault on the messages of a queue; `ended` is the state of the run, `tries` those of the task."""

    lost: int
    twice: int
    doubled: int
    stale: int
    stuck: int
    survivors: int
    ended: str
    tries: int

    def shown(self) -> dict[str, int]:
        """Return the counts as they are reported."""
        return {**{name: getattr(self, name) for name in (*ZEROS, "tries")}, "processed twice": self.twice}


class Scene:
    """`begin`, and when it has `reached` its state, let the fault happen; `go_on`, then `count`."""

    def __init__(self, world: World, fault: str, state: str, *, timed: bool) -> None:
        self.world, self.state = world, state
        self.name = f"{fault}.{state}"
        self.run = (f"{state}_timed" if timed else state, fault)
        self.victim = VICTIMS[state]
        self.ledger = Ledger(self.name, world.airflow.ledgers)
        self.queue = LeasedQueue(world.redis.url, self.name, LeasedConfig(lease=LEASE_S))
        self.pid: int | None = None

    def begin(self) -> None:
        """Publish messages and start the run; the deferred sensor waits for one message more."""
        self._publish(range(TOTAL - 1 if self.state == "deferred" else TOTAL))
        self.world.airflow.rest.trigger(*self.run, {"queue": self.name})

    def reach(self) -> None:
        """Return when the task is in its state."""
        until(self._waits if self.state == "deferred" else self.ledger.stands, PATIENCE_S, pace_s=0.5)
        self.pid = self.task().pid

    def go_on(self) -> None:
        """Continue after the fault: open the gate and publish what is missing."""
        self.ledger.open_gate()
        if self.state == "deferred":
            self._publish([TOTAL - 1])

    def task(self) -> TaskState:
        """Return the task that is in the state."""
        return self.world.airflow.rest.tasks(*self.run)[self.victim]

    def process(self) -> psutil.Process:
        """Return the process of the task."""
        return psutil.Process(self.pid)

    def victim_is_gone(self) -> bool:
        """Return whether the process at the time of the fault has ended."""
        return self.pid is None or not psutil.pid_exists(self.pid)

    def victim_is_tried_again(self) -> bool:
        """Return whether Airflow has given up the try that ran at the time of the fault."""
        task = self.task()
        return task.try_number > 1 or task.state in ("up_for_retry", "failed")

    def await_drivers(self) -> list[psutil.Process]:
        """Wait until the queue's drivers have ended; return those that still run after two minutes."""
        with contextlib.suppress(AssertionError):
            until(lambda: not self._drivers(), SURVIVAL_S, pace_s=0.5)
        return self._drivers()

    def take_expired(self) -> int:
        """Process the messages of an expired lease as another consumer; return how many."""
        lease = self.queue.claim(max_messages=TOTAL)
        if lease is None:
            return 0
        fence = fence_of(lease.token)
        for message in lease.messages:
            self.ledger.have_effect(fence, message.id, str(message.payload))
        self.queue.ack(lease)
        self.ledger.write("acked", fence, [message.id for message in lease.messages])
        return lease.count

    def count(self, ended_at: float) -> Count:
        """Count once the work has finished, or should have: `ended_at` is when the fault was over, monotonic."""
        with contextlib.suppress(AssertionError):
            until(lambda: self._ended() and not self._held(), ended_at + STUCK_S - time.monotonic(), pace_s=1)
        stuck = self._stuck()
        with contextlib.suppress(AssertionError):
            until(self._ended, PATIENCE_S, pace_s=1)
        stuck += not self._ended()
        missing = {str(number) for number in range(TOTAL)} - set(self.ledger.effects().values()) - self._idle()
        return Count(
            lost=max(0, len(missing) - stuck),
            twice=self.ledger.twice(),
            doubled=self.ledger.doubled(),
            stale=self.ledger.stale(),
            stuck=stuck,
            survivors=len(self.await_drivers()),
            ended=self.world.airflow.rest.run_state(*self.run),
            tries=self.task().try_number,
        )

    def close(self) -> None:
        self.queue.close()

    def _publish(self, numbers: range | list[int]) -> None:
        self.queue.publish_many([str(number) for number in numbers])

    def _drivers(self) -> list[psutil.Process]:
        return drivers_of(self.world.airflow.ledgers, self.name)

    def _waits(self) -> bool:
        """Return whether the trigger waits: Redis has its request for a notification."""
        bell = self.queue.client.zscore(f"rmq:{{{self.name}}}:waiters", "*")
        return bell is not None and self.task().state == "deferred"

    def _ended(self) -> bool:
        return self.world.airflow.rest.run_state(*self.run) in ("success", "failed")

    def _held(self) -> int:
        """Return how many messages are under an unexpired lease."""
        now = datetime.now(UTC)
        leases = [info for info in self.queue.admin.leases() if info.deadline is None or info.deadline > now]
        return sum(info.count - info.settled for info in leases)

    def _stuck(self) -> int:
        """Return messages that are neither processed nor claimable, and tasks that only Airflow believes to run."""
        if self._ended():
            return self._held()
        dead = self._dead()
        with contextlib.suppress(AssertionError):
            until(lambda: not dead & self._dead(), NOTICED_S, pace_s=1)
        return len(dead & self._dead())

    def _dead(self) -> set[TaskState]:
        tasks = self.world.airflow.rest.tasks(*self.run).values()
        return {task for task in tasks if task.state == "running" and task.pid and not psutil.pid_exists(task.pid)}

    def _idle(self) -> set[str]:
        """Return the payloads of messages that any consumer can claim, now or later, and of dead letters."""
        lease = self.queue.claim()  # reclaims expired leases
        if lease:
            self.queue.release(lease)
        pages = [self.queue.admin.browse(which, 0, TOTAL).messages for which in ("ready", "delayed", "dead")]
        return {str(message.payload) for page in pages for message in page}
