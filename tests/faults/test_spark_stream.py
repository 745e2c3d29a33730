"""A stream whose processes are killed at random, and whose Redis is: each message is in the sink once, none is lost.

The sink is a table with a key in SQLite, or a table of Delta Lake or Apache Iceberg that has no key.
In full length there are ten seeds with 20 kills and 2,000 messages each; `-k seed3` runs one of them again.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from rmq_core import LeasedQueue, RedisSettings
from tests.faults import tally
from tests.faults.crew import ROOT
from tests.faults.patience import eventually
from tests.servers import Server, start_server
from tests.spark.readers import publish, run
from tests.spark.table_kits import KITS

DRIVER, APPENDER = (Path(__file__).with_name(name) for name in ("stream_driver.py", "stream_appender.py"))
SIDE = "python_streaming_source_runner"
WORKER = "pyspark.daemon"
MANY_KILLS = [*["driver"] * 4, *[SIDE] * 9, *[WORKER] * 7]
SOME_KILLS = ["driver", *[SIDE] * 3, *[WORKER] * 2]
START_S = 300  # a Spark that starts on a busy machine


class Driver:
    """The driver's processes, and what they have written so far."""

    def __init__(
        self, url: str, folder: Path, most: int, environment: dict[str, str] | None = None, kind: str = ""
    ) -> None:
        program, kinds = (APPENDER, [kind]) if kind else (DRIVER, [])
        self.command = [sys.executable, str(program), url, str(folder), str(most), *kinds]
        self.environment = environment
        self.folder, self.database = folder, folder / "sink.sqlite"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True, env=self.environment)

    def kill(self) -> None:
        """Send SIGKILL to all of it at once, and start a new one."""
        self.end()
        tally.count("Spark driver killed")
        self.process = self._start()

    def kill_part(self, name: str) -> bool:
        """Send SIGKILL to one process of that name; return False when there is none at present."""
        found = [process for process in self._family() if name in " ".join(_command(process))]
        if not found:
            return False
        with_work = found[-1]  # of the daemon and its workers, a worker
        with_work.kill()
        tally.count(f"{name} killed")
        return True

    def end(self) -> None:
        """Send SIGKILL to the whole session; Spark's workers have their own process groups."""
        subprocess.run(["pkill", "-KILL", "-s", str(self.process.pid)], check=False)
        self.process.wait()

    def count(self, what: str) -> int:
        """Return how many rows a table has."""
        if not self.database.exists():
            return 0
        with closing(sqlite3.connect(self.database, timeout=60)) as sink:
            try:
                return int(sink.execute(f"SELECT count(*) FROM {what}").fetchone()[0])
            except sqlite3.OperationalError:  # not created yet
                return 0

    def rows(self) -> list[tuple[str, int, int]]:
        """Return id, number, and how often it was written."""
        with closing(sqlite3.connect(self.database, timeout=60)) as sink:
            return sink.execute("SELECT id, n, times FROM sink").fetchall()

    def errors(self) -> list[str]:
        """Return what ended queries that were started again."""
        with closing(sqlite3.connect(self.database, timeout=60)) as sink:
            return [error for (error,) in sink.execute("SELECT error FROM runs WHERE error IS NOT NULL")]

    def _family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@contextmanager
def driver(
    url: str, folder: Path, most: int, environment: dict[str, str] | None = None, kind: str = ""
) -> Iterator[Driver]:
    """Start a driver. environment: of its processes. kind: of the table that it appends to, instead of SQLite."""
    started = Driver(url, folder, most, environment, kind)
    try:
        yield started
    except BaseException:
        print((folder / "driver.log").read_text()[-5000:])
        raise
    finally:
        started.end()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ten seeds in full length, one in the short form."""
    if "seed" in metafunc.fixturenames:
        seeds = range(10) if metafunc.config.getoption("faults") == "full" else range(1)
        metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds])


@pytest.mark.nightly("faults/test_spark_stream.py::test_a_restart_of_redis_between_any_two_hooks_loses_nothing")
def test_a_stream_killed_at_random_has_each_message_in_its_sink_once(
    own_server: Server, client: redis.Redis, tmp_path: Path, seed: int, *, full_faults: bool
) -> None:
    with LeasedQueue(client, "q") as queue, driver(own_server.url, tmp_path, 30) as streaming:
        kills = MANY_KILLS if full_faults else SOME_KILLS
        total = survive(streaming, queue, lambda: streaming.count("sink"), kills, random.Random(seed))
        rows = streaming.rows()
        tally.count("message written to the sink more than once, under its key", sum(row[2] > 1 for row in rows))
        assert sorted(row[1] for row in rows) == list(range(total))
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)


@pytest.mark.nightly("faults/test_spark_tables.py::test_a_driver_killed_at_random_has_each_message_in_its_table_once")
@pytest.mark.parametrize("kind", KITS)
def test_a_stream_killed_at_random_appends_each_message_to_its_table_once(
    own_server: Server, client: redis.Redis, tmp_path: Path, kind: str, *, full_faults: bool
) -> None:
    kit, environment = KITS[kind](tmp_path), {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        LeasedQueue(client, "q") as queue,
        driver(own_server.url, tmp_path, 30, environment, kind) as streaming,
    ):
        kills = MANY_KILLS if full_faults else SOME_KILLS
        total = survive(streaming, queue, lambda: len(kit.numbers()), kills, random.Random(kind))
        assert kit.numbers() == list(range(total))
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def survive(
    streaming: Driver, queue: LeasedQueue, written: Callable[[], int], kills: list[str], chance: random.Random
) -> int:
    """Publish, and kill a process of the stream after some batches, again and again; return how many messages came."""
    total = 100 * len(kills)
    for number, kill in enumerate(chance.sample(kills, len(kills))):
        publish(queue, 100, first=100 * number)
        before = written()
        eventually(lambda before=before: written() > before, START_S)
        time.sleep(chance.uniform(0, 0.3))
        if kill == "driver":
            streaming.kill()
        else:
            eventually(lambda kill=kill: streaming.kill_part(kill), START_S)
    while (before := written()) < total:  # no limit in total: a busy machine may need long
        eventually(lambda before=before: written() > before, START_S)
    eventually(lambda: not sum(queue.stats()[:5]), START_S)
    return total


def test_a_restart_of_redis_between_any_two_hooks_loses_nothing(own_server: Server) -> None:
    server = start_server(own_server.name, "--appendonly", "yes", "--appendfsync", "always")

    def restart() -> None:
        server.kill9()
        server.restart()
        tally.count("Redis killed under a stream")

    try:
        with LeasedQueue(RedisSettings.from_url(server.url), "work") as queue:
            publish(queue, 30)
            with run(server.url, maxMessagesPerBatch=10) as stream:
                restart()
                end = stream.next()
                restart()
                assert sorted(stream.read(end)) == list(range(10))
                restart()
                stream.at = end
                assert sorted(stream.batch()) == list(range(10, 20))
                start = stream.at
            restart()
            with run(server.url, start) as again:
                assert sorted(again.batch()) == list(range(20, 30))
                again.next()
            assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    finally:
        server.stop()


def test_a_foreign_claimer_of_an_expired_batch_and_the_stream_share_its_messages(
    own_server: Server, client: Any
) -> None:
    url = own_server.url
    with LeasedQueue(client, "work") as queue, LeasedQueue(client, "work") as thief:
        publish(queue, 50)
        with run(url) as first:
            start, end = first.at, first.next()
            assert sorted(first.read(end)) == list(range(50))
        for lease in queue.admin.leases():
            client.zadd("rmq:{work}:leases", {lease.id: 1})
        stolen = eventually(lambda: thief.claim(max_messages=70))
        tally.count("lease of a batch expired, its messages stolen")
        with run(url, start) as second:
            got = second.read(end)
            assert got == [], "what others have is not read"
            second.at = end
            for _ in range(60):
                got += second.batch()
            second.next()
        taken = [message.payload["n"] for message in thief.messages(stolen)]  # type: ignore[call-overload, index]
        thief.ack(stolen)
        assert sorted(got + taken) == list(range(50))
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)
