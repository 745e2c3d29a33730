"""Writers of staged messages that die, lose a race or meet a full server publish everything once, or nothing.

Spark's tasks and its driver send a list of writes to Redis. A writer here dies before or after each of them; killing a
whole Spark at a random moment covers the other processes.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis
from pyspark.sql.types import StringType, StructField, StructType

from rmq_core import LeasedQueue, NewMessage, QueueFull, Stage
from rmq_core.leased.publishing import publish_staged
from rmq_spark.write.sink import writer_of
from tests.core.leases import drain, driver_of, engine_of, key
from tests.faults import tally
from tests.servers import Server

AUTHOR = Path(__file__).parent / "spark_author.py"
PLAIN, KEYED = 4_500, 1_100
START_S = 300  # a Spark that starts on a busy machine
EVERYTHING = [*map(str, range(PLAIN)), *(f"k{number}" for number in range(KEYED))]


class Died(BaseException):
    """The end of a process, as Redis sees it: no command follows."""


@pytest.fixture
def queue(client: redis.Redis) -> Iterator[LeasedQueue]:
    """The queue `q` with a new client."""
    with LeasedQueue(client, "q") as opened:
        yield opened


def dying(client: redis.Redis, write: int, *, sent: bool) -> LeasedQueue:
    """A queue object that dies at its nth write, before or after Redis received it."""
    author = LeasedQueue(client, "q")
    driver, send = driver_of(author), driver_of(author)._send
    left = iter(range(write, -1, -1))

    def mortal(*request: Any) -> Any:
        last = next(left) == 0
        if not last or sent:
            replies = send(*request)
        if last:
            raise Died
        return replies

    driver._send = mortal
    return author


def publish_all(author: LeasedQueue) -> None:
    keyed = (NewMessage(f"k{number}", dedup_key=str(number)) for number in range(KEYED))
    author.publish_staged([author.stage(map(str, range(PLAIN))), author.stage(keyed)], sink="s")


def died(author: LeasedQueue) -> bool:
    """Let an author publish; return whether it died."""
    try:
        publish_all(author)
    except Died:
        tally.count("author died")
        return True
    return False


def overdue(client: redis.Redis) -> None:
    """Let the time pass during which others leave an unfinished publication alone."""
    for member in client.zrange(key("leases"), 0, -1):
        client.zadd(key("leases"), {member: 1})


@pytest.mark.parametrize("moment", ["before it is sent", "after it is sent"])
def test_a_writer_that_dies_at_any_write_publishes_all_or_nothing(
    client: redis.Redis, queue: LeasedQueue, moment: str
) -> None:
    for write in range(100):
        client.flushdb()
        ended = died(dying(client, write, sent=moment == "after it is sent"))
        decided = client.exists(key("sink:s"))
        overdue(client)
        assert drain(queue) == (EVERYTHING if decided else []), write
        assert all(client.pttl(name) > 0 for name in client.scan_iter(key("stage:*")))
        publish_all(queue)
        assert len(drain(queue)) == (0 if decided else len(EVERYTHING)), write
        if not ended:
            return
    pytest.fail("the author never came to its end")


def test_a_publication_is_finished_on_a_full_server(client: redis.Redis, queue: LeasedQueue) -> None:
    stage = queue.stage(map(str, range(PLAIN)))
    decide(queue, stage)
    overdue(client)
    client.config_set("maxmemory", 1)
    try:
        tally.count("server out of memory")
        with pytest.raises(QueueFull):
            queue.stage(["x"])
        with pytest.raises(QueueFull):
            queue.publish_staged([], sink="s")
        assert drain(queue) == [str(number) for number in range(PLAIN)]
    finally:
        client.config_set("maxmemory", 0)


def decide(queue: LeasedQueue, stage: Stage) -> None:
    """Commit a publication, and die before any message is moved."""
    queue.backlog()
    engine_of(queue).registered = True
    operation = publish_staged(engine_of(queue), [stage])
    driver_of(queue).run(_once(next(operation)))


def _once(want: Any) -> Any:
    yield want


def writer(url: str, **options: str) -> Any:
    """Return what Spark sends to its executors."""
    schema = StructType([StructField("payload", StringType())])
    return writer_of({"url": url, "queue": "q"} | options, schema, overwrite=False)


def rows(*payloads: str) -> Iterator[Any]:
    yield pa.RecordBatch.from_pydict({"payload": list(payloads)})


def test_an_attempt_that_lost_against_a_speculative_one_publishes_nothing(
    own_server: Server, client: redis.Redis, queue: LeasedQueue
) -> None:
    job = writer(own_server.url)
    slow, quick, other = job.write(rows("a", "b")), job.write(rows("a", "b")), job.write(rows("c"))
    job.commit([quick, other])
    assert drain(queue) == ["a", "b", "c"]
    (left,) = client.scan_iter(key("stage:*"))
    assert left.decode() == key(f"stage:{slow.stage.id}")
    assert client.pttl(left) > 0
    late = job.write(rows("a", "b"))  # an attempt that Spark abandoned and that did not notice it
    job.abort([late, None])
    assert drain(queue) == []


def test_a_failed_commit_can_be_repeated(own_server: Server, queue: LeasedQueue) -> None:
    job = writer(own_server.url, sinkId="s")
    staged = [job.write(rows("a")), job.write(rows("b"))]
    job.commit(staged)
    job.commit(staged)
    job.abort(staged)
    assert drain(queue) == ["a", "b"]


def test_a_write_that_fills_the_server_leaves_nothing_behind(
    own_server: Server, client: redis.Redis, queue: LeasedQueue
) -> None:
    before = client.info("memory")["used_memory"]
    client.config_set("maxmemory", before + (4 << 20))
    client.config_set("maxmemory-policy", "noeviction")
    try:
        tally.count("server out of memory")
        with pytest.raises(QueueFull):
            writer(own_server.url).write(rows(*(["x" * 1000] * 20_000)))
        assert list(client.scan_iter(key("stage*"))) == []
    finally:
        client.config_set("maxmemory", 0)
    assert queue.claim() is None


@pytest.fixture
def kills(pytestconfig: pytest.Config) -> int:
    """The number of Spark jobs that are killed."""
    return 20 if pytestconfig.getoption("faults") == "full" else 1


@pytest.fixture
def author(own_server: Server, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start the Spark job of `spark_author.py`; all its processes are killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        with (tmp_path / "author.log").open("ab") as log:
            command = [sys.executable, str(AUTHOR), own_server.url, "20000"]
            started.append(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
            )
        return started[-1]

    yield start
    for process in started:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Send SIGKILL to its whole session, including Spark's Java and its Python workers."""
    subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@pytest.mark.nightly("faults/test_spark_sink.py::test_a_writer_that_dies_at_any_write_publishes_all_or_nothing")
def test_a_spark_job_that_is_killed_while_it_writes_publishes_all_or_nothing(
    author: Callable[[], subprocess.Popen[str]], client: redis.Redis, queue: LeasedQueue, kills: int
) -> None:
    found: list[str] = []
    for seed in range(kills):
        client.flushdb()
        job = author()
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        time.sleep(random.Random(seed).uniform(0, 2))
        end(job)
        tally.count("Spark driver killed")
        overdue(client)
        found = drain(queue)
        again = author()
        assert again.wait(START_S) == 0
        found += drain(queue)
        assert sorted(map(int, found)) == list(range(20_000)), seed
