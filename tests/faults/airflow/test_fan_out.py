"""Mapped tasks share a queue while several faults hit them at once: no message is left without a worker."""

from __future__ import annotations

import time

import psutil
import pytest

from rmq_core import LeasedQueue
from tests.faults import report
from tests.faults.airflow.deployment import Deployment
from tests.faults.airflow.fan_out import KILLED, MARKED, SAID, SHARE, VICTIMS, place_of
from tests.faults.airflow.ledger import Ledger
from tests.faults.airflow.rest import TaskState
from tests.faults.airflow.scene import PATIENCE_S, World
from tests.servers.process import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "airflow/test_mapped_dag.py::test_each_mapped_task_publishes_its_own_list_and_works_on_its_own_lease"
    ),
]
RUN = ("fan_out", "befallen")
HEAD = f"""# A fan-out in Airflow

On a real Airflow, mapped tasks of `@task.redis_queue(max_messages={SHARE}, retries=1)` share a queue that holds
{SHARE} messages for each task. Each of these faults hits one task while it holds {SHARE} messages and does not finish
by itself; all faults come at once. After the mapped tasks, one more task consumes until the queue is empty: no other
task would process the messages of a marked task. Made by `make faults`; do not edit.
"""
KEY = """- **messages**: messages that the task held when the fault hit it.
- **left**: messages that are ready, delayed, leased or dead at the end of the run.
- **tries**: how often Airflow tried the task; it does not retry a marked task.
- **released by it**: messages of the task that the last task processed.
"""
PAGE = report.page("airflow-fan-out", HEAD, KEY, ("left",))


def test_a_fan_out_leaves_nothing_whatever_befalls_its_tasks(deployed: World, pytestconfig: pytest.Config) -> None:
    tasks = 20 if pytestconfig.getoption("faults") == "full" else 8
    airflow, started = deployed.airflow, time.monotonic()
    with LeasedQueue(deployed.redis.url, "fan-out") as queue:
        payloads = [str(number) for number in range(tasks * SHARE)]
        queue.publish_many(payloads)
        airflow.rest.trigger(*RUN, {"queue": queue.name, "tasks": tasks})
        standing = [Ledger(place_of(queue.name, index), airflow.ledgers) for index in range(len(VICTIMS))]
        until(lambda: all(one.stands() for one in standing), PATIENCE_S, pace_s=0.5)
        _befall(airflow)
        until(lambda: airflow.rest.run_state(*RUN) in ("success", "failed"), PATIENCE_S, pace_s=1)
        stats = queue.stats()
    left = stats.ready + stats.delayed + stats.leased + stats.dead
    _tell(airflow, left, f"{len(payloads)} messages, {tasks} tasks", time.monotonic() - started)
    assert left == 0, stats
    ledger = Ledger("fan-out", airflow.ledgers)
    assert sorted(ledger.effects().values()) == sorted(payloads)
    for index, why in SAID.items():
        assert f"{why}; its messages were released" in _log(airflow, index)
    deliveries = [max(numbers) for numbers in ledger.fences("did").values()]
    assert sum(number > 1 for number in deliveries) == KILLED * SHARE, "a release is no delivery"
    # The messages that the marked tasks released; the other tasks processed theirs in their next try.
    assert sum(airflow.rest.returned(*RUN, "rest")) == MARKED * SHARE


def _befall(airflow: Deployment) -> None:
    """Let each fault hit its task. The gate of the ledger stays closed: the tasks end because they are killed."""
    held = airflow.rest.mapped(*RUN, "work")
    airflow.rest.clear(*RUN, "work", 0)
    airflow.rest.mark(*RUN, "work", "failed", 1)
    airflow.rest.mark(*RUN, "work", "success", 2)
    _process(held[3]).kill()
    for process in (_supervisor(held[4]), _process(held[4])):
        process.kill()
    _supervisor(held[5]).terminate()


def _log(airflow: Deployment, map_index: int) -> str:
    """Return the log lines that state why the first try of a mapped task ended."""
    place = airflow.home / "logs" / "dag_id=fan_out" / f"run_id={RUN[1]}" / "task_id=work" / f"map_index={map_index}"
    return "\n".join(line for line in (place / "attempt=1.log").read_text().splitlines() if "TaskKilled" in line)


def _process(task: TaskState) -> psutil.Process:
    return psutil.Process(task.pid)


def _supervisor(task: TaskState) -> psutil.Process:
    found = psutil.Process(_process(task).ppid())
    assert found.name().startswith("airflow worker"), found
    return found


def _tell(airflow: Deployment, left: int, what: str, seconds: float) -> None:
    tries = airflow.rest.mapped(*RUN, "work")
    for index, fault in enumerate(VICTIMS):
        released = SHARE if "marked" in fault else 0
        counts = {"messages": SHARE, "left": left, "tries": tries[index].try_number, "released by it": released}
        PAGE.cells.append(report.Cell(fault, what, counts))
    PAGE.figures.append(report.Figure("from the trigger to the end of the run", f"{seconds:.0f} s", "", met=True))
