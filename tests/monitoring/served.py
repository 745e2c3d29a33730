"""`rmq serve` as a process, and queues in each state that has a metric; one of them is used all the time."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from rmq_core import LeasedConfig, LeasedQueue
from tests.servers import start_server
from tests.servers.process import DIES_WITH_US

ROOT = Path(__file__).parents[2]
ONE_FAILURE = LeasedConfig(max_deliveries=1)


@contextmanager
def running_serve() -> Iterator[str]:
    """Yield host and port of `rmq serve` for the duration of the block."""
    redis = start_server("7.0")
    try:
        for name in ("flights", "airports"):
            _fill(redis.url, name)
        with _paused(redis.url, "airports"), _working(redis.url, "carriers"), serving(redis.url) as served:
            yield served.address
    finally:
        redis.stop()


def _fill(url: str, name: str) -> None:
    """Leave 40 ready messages of which 4 are isolated, 20 in two leases, 7 delayed ones and 3 dead letters."""
    with LeasedQueue(url, name, ONE_FAILURE) as strict:
        for _ in range(3):
            strict.publish("bad")
            strict.nack(strict.claim())
    with LeasedQueue(url, name, LeasedConfig(lease=3600)) as queue:
        queue.publish_many([f"held {number}" for number in range(20)])
        for holder in ("a", "b"):
            queue.claim(max_messages=10, lease_id=holder)
        queue.publish_many([f"suspect {number}" for number in range(4)])
        for _ in range(2):
            queue.nack(queue.claim(max_messages=4))
        queue.publish_many([f"ready {number}" for number in range(36)])
        queue.publish_many([f"later {number}" for number in range(7)], delay=timedelta(hours=1))


@contextmanager
def _paused(url: str, name: str) -> Iterator[None]:
    with LeasedQueue(url, name) as queue:
        queue.admin.pause()
        yield


@contextmanager
def _working(url: str, name: str) -> Iterator[None]:
    """Publish, claim, ack, and let messages die, until the block ends."""
    end = threading.Event()

    def work() -> None:
        with LeasedQueue(url, name, ONE_FAILURE) as queue:
            while not end.wait(0.2):
                queue.publish_many(["good", "bad"])
                queue.ack(queue.claim())
                queue.nack(queue.claim())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


class Served(NamedTuple):
    """A running `rmq serve`: host and port, and its process."""

    address: str
    pid: int


@contextmanager
def serving(url: str) -> Iterator[Served]:
    """Run `rmq serve` for the duration of the block."""
    command = [sys.executable, "-m", "rmq_cli", "serve", "--url", url, "--port", "0"]
    process = subprocess.Popen([*DIES_WITH_US, *command], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        assert said.startswith("http://"), said + process.stderr.read()
        yield Served(said.split()[0].removeprefix("http://").rstrip("/"), process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()
