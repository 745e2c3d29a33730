"""Claimed batches whose driver, executors, Python workers or Redis die: each message's effects exist."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from rmq_core import LeasedQueue
from tests.faults import tally
from tests.faults.crew import Member
from tests.faults.spark_driver import QUEUE, TWO_EXECUTORS
from tests.servers import Server
from tests.servers.process import until

COUNT = 200
PATIENCE_S = 600  # what a newly started Spark needs for its first task on a busy machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("driver")


@pytest.fixture(scope="module")
def driver(own_server: Server, folder: Path) -> Iterator[Member]:
    """A driver that lives as long as these tests."""
    with Member("spark_driver", own_server.url, str(folder), "local[2]") as member:
        assert member.hear() == "ready"
        yield member


@pytest.fixture
def queue(client: redis.Redis, folder: Path) -> Iterator[LeasedQueue]:
    """A queue with messages, and a folder without files of earlier tasks."""
    for path in folder.iterdir():
        path.unlink()
    with LeasedQueue(client, QUEUE) as opened:
        opened.publish_many([str(number) for number in range(COUNT)])
        yield opened


def tasks(folder: Path) -> list[psutil.Process]:
    """Return the Python workers that run a task."""
    return [process for path in folder.glob("pid-*") for process in alive(int(path.name.removeprefix("pid-")))]


def alive(pid: int) -> Iterator[psutil.Process]:
    """Return the process of this number, unless it has ended."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            yield process


def first_task(folder: Path) -> psutil.Process:
    """Return one of them, once there is one."""
    found: list[psutil.Process] = []
    until(lambda: found.extend(tasks(folder)) or found, PATIENCE_S)
    return random.choice(found)


def kill_worker(folder: Path) -> None:
    """Send SIGKILL to a Python worker."""
    tally.count("Python worker of Spark killed")
    first_task(folder).kill()


def kill_executor(folder: Path) -> None:
    """Send SIGKILL to the Java process that a Python worker's daemon belongs to."""
    tally.count("executor of Spark killed")
    family = first_task(folder).parents()
    next(process for process in family if process.name() == "java").kill()


def done(folder: Path) -> set[str]:
    """Return the messages whose effects exist."""
    return {line for path in folder.glob("did-*") for line in path.read_text().splitlines()}


def ids(queue: LeasedQueue) -> set[str]:
    return {message.id for message in queue.admin.peek(COUNT)}


@pytest.mark.nightly("spark/test_claimed_batch.py::test_a_retried_task_reads_the_same_messages")
def test_killed_workers_and_executors_cost_no_message(
    own_server: Server, folder: Path, queue: LeasedQueue, *, full_faults: bool
) -> None:
    kinds: list[Callable[[Path], None]] = [kill_worker, kill_executor]
    wanted = ids(queue)
    with Member("spark_driver", own_server.url, str(folder), TWO_EXECUTORS) as driver:
        assert driver.hear() == "ready"
        driver.tell("run")
        for kill in kinds * (8 if full_faults else 1):
            kill(folder)
        (folder / "go").touch()
        assert driver.hear() == f"acked {COUNT}"
    assert done(folder) == wanted
    assert sum(queue.stats()[:5]) == 0


def test_the_next_driver_takes_over_the_batch_of_a_killed_driver(
    own_server: Server, driver: Member, folder: Path, queue: LeasedQueue, *, full_faults: bool
) -> None:
    wanted = ids(queue)
    for kills in range(3 if full_faults else 1):
        with Member("spark_driver", own_server.url, str(folder), "local[2]") as victim:
            assert victim.hear() == "ready"
            victim.tell("run")
            first_task(folder)
            victim.kill()
        info = queue.lease_info("run")
        assert info is not None
        assert (info.count, info.settled, info.takeovers) == (COUNT, 0, kills)
    (folder / "go").touch()
    driver.tell("run")
    assert driver.hear() == f"acked {COUNT}"
    assert done(folder) == wanted
    assert sum(queue.stats()[:5]) == 0


def test_work_stops_before_its_lease_expires_while_redis_is_unreachable(
    own_server: Server, driver: Member, folder: Path, queue: LeasedQueue
) -> None:
    driver.tell("run")
    first_task(folder)
    own_server.pause()
    tally.count("Redis out of sight of a Spark driver")
    try:
        word, stopped_at = driver.hear().split()
    finally:
        own_server.resume()
    assert word == "stopped"
    assert driver.hear() == "LeaseLost"
    info: Any = queue.lease_info("run")
    assert (info.count, info.settled) == (COUNT, 0), "nothing is acked, although the lease was not taken by anybody"
    assert float(stopped_at) < info.deadline.timestamp()
    assert done(folder) == set()
