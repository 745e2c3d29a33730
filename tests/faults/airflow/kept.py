"""A lease that a failed task kept for its retry, and the user actions that prevent the retry."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rmq_core import LeasedConfig, LeasedQueue
from tests.faults.airflow.scene import PATIENCE_S, TOTAL, World
from tests.servers.process import until

TASK = "take"


class Kept:
    """A run whose task has failed, and whose retry is an hour away; `name` is also that of its queue."""

    def __init__(self, world: World, name: str, dag_id: str) -> None:
        self.world, self.name, self.run = world, name, (dag_id, name)
        self.queue = LeasedQueue(world.redis.url, name, LeasedConfig())

    def begin(self) -> None:
        """Publish messages, and start the run."""
        self.queue.publish_many([str(number) for number in range(TOTAL)])
        self.world.airflow.rest.trigger(*self.run, {"queue": self.name})

    def reach(self) -> None:
        """Return when the task has failed and kept all messages."""
        until(lambda: self._task_state() == "up_for_retry", PATIENCE_S, pace_s=0.5)
        (lease,) = self.queue.admin.leases()
        assert (lease.count, self.ready()) == (TOTAL, 0)

    def ready(self) -> int:
        return self.queue.stats().ready

    def whole(self) -> bool:
        """Return whether all its messages are ready again, and none is delivered, dead or duplicated."""
        return self.queue.stats()[:5] == (TOTAL, 0, 0, 0, 0)

    def close(self) -> None:
        self.queue.close()

    def _task_state(self) -> str | None:
        tasks = self.world.airflow.rest.tasks(*self.run)
        return tasks[TASK].state if TASK in tasks else None


def mark_task(state: str) -> Callable[[Kept], None]:
    return lambda kept: kept.world.airflow.rest.mark(*kept.run, TASK, state)


def mark_run(state: str) -> Callable[[Kept], None]:
    return lambda kept: kept.world.airflow.rest.mark_run(*kept.run, state)


def delete_dag(kept: Kept) -> None:
    kept.world.airflow.rest.delete_dag(kept.run[0])


DELETED = "DAG deleted"
MARKS: Mapping[str, Callable[[Kept], None]] = {
    "task marked success": mark_task("success"),
    "task marked failed": mark_task("failed"),
    "task marked skipped": mark_task("skipped"),
    "run marked success": mark_run("success"),
    "run marked failed": mark_run("failed"),
    DELETED: delete_dag,
}
SHORT = ("task marked failed", DELETED)


def fail_and_keep(world: World, number: int, marks: Sequence[str]) -> dict[str, Kept]:
    """A run for each mark, all of them up for retry."""
    kept = {}
    for mark in marks:
        name = f"kept.{number}.{mark.replace(' ', '-')}"
        kept[mark] = Kept(world, name, f"kept_deleted_{number}" if mark == DELETED else "kept")
        kept[mark].begin()
    for one in kept.values():
        one.reach()
    return kept


def time_until_ready(kept: Mapping[str, Kept], since: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds from `since` until all messages were ready again, by mark; waits as long as that takes."""
    took: dict[str, float] = {}

    def all_ready() -> bool:
        for mark, one in kept.items():
            if mark not in took and one.ready() == TOTAL:
                took[mark] = time.monotonic() - since[mark]
        return len(took) == len(kept)

    until(all_ready, PATIENCE_S, pace_s=0.1)
    return took
