"""Whatever ends a task: only what the message may have caused counts against it, and it is ready again soon.

Half of all combinations in full length; three in the short form. Then poison that kills each task that works on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import pytest

from rmq_core import LeasedConfig, LeasedQueue
from tests.faults import report
from tests.faults.airflow.endings import LONG_S, TASK, Scene, scenes
from tests.faults.airflow.scene import PATIENCE_S, World
from tests.faults.report import Figure
from tests.servers.process import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "airflow/plugin/test_releases.py::test_a_failure_of_the_task_itself_counts_a_delivery_and_a_mark_does_not"
    ),
]
AT_ONCE = 12  # fewer than the tasks that this Airflow runs at the same time
HEAD = """# How a task ends, and what that means for its messages, in Airflow

A task of a real Airflow (LocalExecutor, PostgreSQL) has acked the first of three messages and works on the second one.
Then it ends. *Failures* are the failed deliveries that this counts for the message in work; the third message, which
was not begun, has none in any case. Seconds count until both are ready again, or acked by another try.
"""
PAGE = report.page("airflow-endings", HEAD, "", ())


def test_only_what_a_message_may_have_caused_counts_against_it(deployed: World, pytestconfig: pytest.Config) -> None:
    every = scenes(deployed, full=pytestconfig.getoption("faults") == "full")
    took: dict[str, int] = {}
    for at_once in batched(every, AT_ONCE):
        for step in (Scene.begin, Scene.reach, Scene.befall):
            for scene in at_once:
                step(scene)
        took |= time_until_ended(at_once)
    wrong = {scene.name: found for scene in every if (found := deviations(scene))}
    for scene in every:
        found = f"{failures(scene)} failures, {took[scene.name]} s"
        due = f"{scene.counts()} failures"
        PAGE.figures.append(Figure(f"{scene.ending.name}, {scene.cell}", found, due, met=scene.name not in wrong))
        scene.queue.close()
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def batched(every: Sequence[Scene], size: int) -> Iterator[Sequence[Scene]]:
    return (every[first : first + size] for first in range(0, len(every), size))


def time_until_ended(every: Sequence[Scene]) -> dict[str, int]:
    """Return the seconds until each run had ended and held no message."""
    took: dict[str, int] = {}

    def all_ended() -> bool:
        for scene in every:
            if scene.name not in took and scene.ended():
                took[scene.name] = int(time.monotonic()) - scene.at
        return len(took) == len(every)

    until(all_ended, PATIENCE_S, pace_s=0.5)
    return took


def failures(scene: Scene) -> int:
    """Return how many failed deliveries the message in work has: as its next delivery told, or as it waits."""
    if scene.continues():
        return scene.ledger.fences("did")["second"][-1] - 1
    return scene.waiting()["second"].deliveries


def deviations(scene: Scene) -> list[str]:
    """Return what is not as it should be."""
    waiting, log = scene.waiting(), scene.logged()
    said = {
        "ready": (sorted(waiting), [] if scene.continues() else ["second", "third"]),
        "failures": (failures(scene), scene.counts()),
        "failures of the third": (waiting["third"].deliveries if waiting else 0, 0),
        "log": ([word for word in ("Expired", "Released") for line in log if f"{word} lease" in line], scene.says()),
    }
    return [f"{what}: {found}, not {due}" for what, (found, due) in said.items() if found != due]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "poisons" in metafunc.fixturenames:
        full = metafunc.config.getoption("faults") == "full"
        cases = (
            [("on_message", 200, 1), ("on_message", 200, 5), ("on_batch", 200, 1)] if full else [("on_message", 20, 1)]
        )
        metafunc.parametrize(("how", "total", "poisons"), cases)


def test_poison_kills_few_tasks_until_all_other_messages_are_acked(
    deployed: World, how: str, total: int, poisons: int
) -> None:
    """With the default lease of 300 s."""
    name = f"poison.{how}.{poisons}"
    bound = math.floor(2 * math.log2(total) + 4)
    step = total // (poisons + 1)
    payloads = [str(number) for number in range(total)]
    payloads[step // 2 : step * poisons : step] = ["poison"] * poisons
    with LeasedQueue(deployed.redis.url, name, LeasedConfig()) as queue:
        queue.publish_many(payloads)
        kills, started = 0, time.monotonic()
        while {message.payload for message in queue.admin.peek(total)} - {"poison"}:
            kills += not drained(deployed, queue, f"poison_{how}", f"{name}.{kills}")
            assert kills <= bound, queue.stats()
        PAGE.figures.append(
            Figure(
                f"tasks that {poisons} of {total} messages killed until all others were acked, {how}",
                f"{kills}, {time.monotonic() - started:.0f} s",
                f"≤ {bound}",
                met=True,
            )
        )
        assert sum(message.deliveries for message in queue.admin.peek(total)) >= poisons


def drained(world: World, queue: LeasedQueue, dag_id: str, run_id: str) -> bool:
    """Run the task; return whether it survived. When it was killed, wait until its messages are ready again."""
    rest = world.airflow.rest
    rest.trigger(dag_id, run_id, {"queue": queue.name, "connection": "watched_default"})
    until(lambda: rest.run_state(dag_id, run_id) in ("success", "failed"), PATIENCE_S, pace_s=0.5)
    until(lambda: not queue.admin.leases(), LONG_S, pace_s=0.5)
    return rest.tasks(dag_id, run_id)[TASK].state == "success"
