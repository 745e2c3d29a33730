"""A driver that appends batches to a table is killed at random, and Redis and Spark's Python workers are.

Each message is in the table once. In full length there are 200 kill points over 20,000 messages in 100 batches, for
each kind of table: once with a plain Python driver, and once with one that lets Spark read and compute.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from rmq_core import LeasedQueue, RedisSettings
from tests.faults import tally
from tests.faults.crew import Member
from tests.faults.table_driver import QUEUE
from tests.servers import Server, start_server
from tests.servers.process import until
from tests.spark.cluster import connect_server
from tests.spark.readers import publish
from tests.spark.table_kits import KITS, Kit

ANY_TIME = "any time between claim and ack"
BEFORE_COMMIT, BEFORE_ACK, REDIS, WORKER = "computed", "committed", "Redis", "Python of an executor"
KILLS = [BEFORE_COMMIT, BEFORE_ACK, "acked", ANY_TIME, REDIS]
LONGEST_S, LONGEST_OF_SPARK_S = 0.08, 2.0  # of the wait before a kill at any time: about a batch
TASK_S = 300  # until a task runs on a busy machine


class Lives:
    """The lives of a driver, and how often it reached which point."""

    longest_s = LONGEST_S

    def __init__(self, member: Member, server: Server, chance: random.Random) -> None:
        self.member, self.server, self.chance = member, server, chance
        self.reached: Counter[str] = Counter()
        self.next = 0  # the batch that is not acked yet

    def begin(self, *points: tuple[str, int]) -> int:
        """Begin a life; return its process."""
        self.member.tell(json.dumps(points))
        return int(self.member.hear().split()[1])

    def hear_until(self, word: str) -> str:
        """Listen until the life says a word, or has ended; return which."""
        said = ""
        while said not in {word, "ended"}:
            said, *number = self.member.hear().split()
            self.reached[said] += 1
            self.next = int(number[0]) + 1 if said == "acked" else self.next
        return said

    def kill(self, kill: str) -> bool:
        """Live until a point of the next batch, or of the one after it; die there. Return whether it got that far."""
        batch = self.next
        if kill == ANY_TIME:
            pid = self.begin(("acked", batch))
            heard = self.hear_until("claimed")
            time.sleep(self.chance.uniform(0, self.longest_s))
        elif kill == REDIS:
            pid = self.begin((self.chance.choice([BEFORE_COMMIT, BEFORE_ACK]), batch), ("acked", batch))
            heard = self.hear_until("waiting")
            self.server.kill9()
            self.server.restart()
            self.member.tell("go")
            heard = self.hear_until("acked")
        else:
            pid = self.begin((kill, batch))
            heard = self.hear_until("waiting")
        if heard == "ended":
            return kill == REDIS
        os.kill(pid, signal.SIGKILL)
        self.hear_until("ended")
        return True


class SparkLives(Lives):
    """The lives of a driver whose batches are read and computed by a Spark that outlives it."""

    longest_s = LONGEST_OF_SPARK_S

    def __init__(self, member: Member, server: Server, chance: random.Random, folder: Path) -> None:
        super().__init__(member, server, chance)
        self.folder = folder

    def kill(self, kill: str) -> bool:
        return self.kill_worker() if kill == WORKER else super().kill(kill)

    def kill_worker(self) -> bool:
        """Kill a Python process in which a task of the next batch runs, and let the life end after its ack."""
        for left in self.folder.glob("task-*"):
            left.unlink()
        (self.folder / "hold").touch()
        pid = self.begin(("acked", self.next))
        until(lambda: [*self.folder.glob("task-*")], TASK_S)
        task = self.chance.choice([*self.folder.glob("task-*")])
        os.kill(int(task.name.removeprefix("task-")), signal.SIGKILL)
        (self.folder / "hold").unlink()
        survived = self.hear_until("waiting") == "waiting"
        os.kill(pid, signal.SIGKILL)
        self.hear_until("ended")
        return survived


@pytest.fixture
def durable(own_server: Server) -> Iterator[Server]:
    """A server that may be killed and loses nothing that it acknowledged."""
    server = start_server(own_server.name, "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


@pytest.mark.parametrize("kind", KITS)
def test_a_driver_killed_at_random_has_each_message_in_its_table_once(
    durable: Server, tmp_path: Path, kind: str, *, full_faults: bool
) -> None:
    batches, size = (100, 200) if full_faults else (8, 25)
    arguments = (durable.url, str(tmp_path), kind, str(batches), str(size))
    with Member("table_driver", *arguments) as member:
        lives = Lives(member, durable, random.Random(kind))
        survive(lives, KILLS, KITS[kind](tmp_path), f"{kind}", batches, size)


@pytest.mark.nightly("faults/test_spark_tables.py::test_a_driver_killed_at_random_has_each_message_in_its_table_once")
@pytest.mark.parametrize("kind", KITS)
def test_a_driver_of_spark_killed_at_random_has_each_message_in_its_table_once(
    durable: Server, tmp_path: Path, kind: str, *, full_faults: bool
) -> None:
    batches, size = (100, 200) if full_faults else (8, 25)
    arguments = (durable.url, str(tmp_path), kind, str(batches), str(size))
    one_session = f"/;session_id={uuid.uuid4()}"  # else the server starts new Python processes for each life
    with (
        connect_server(tmp_path, "local[2,3]", sys.executable) as (_, remote),
        Member("table_driver", *arguments, remote + one_session) as member,
    ):
        lives = SparkLives(member, durable, random.Random(kind), tmp_path)
        survive(lives, [*KILLS, WORKER], KITS[kind](tmp_path), f"{kind} with Spark", batches, size)


def survive(lives: Lives, kills: list[str], kit: Kit, name: str, batches: int, size: int) -> None:
    """Let the driver die twice as often as there are batches, and then finish; count what that led to."""
    with LeasedQueue(RedisSettings.from_url(lives.server.url), QUEUE) as queue:
        publish(queue, batches * size)
        assert lives.member.hear() == "ready"
        kinds = cycle(kills)
        for number in range(2 * batches):
            # Half a batch for each kill: a driver that was ahead of that is killed before its next commit.
            kill = next(kinds) if lives.next < number // 2 else BEFORE_COMMIT
            assert lives.kill(kill)
            tally.count(f"driver of a table killed ({name}): {kill}")
        lives.begin()
        lives.hear_until("ended")
        assert lives.reached["done"] == 1
        again = lives.reached["computed"] - batches
        tally.count(f"batch computed again, {name}", again)
        tally.count(f"batch that a keyed merge would have computed again, {name}", again + lives.reached["found"])
        assert kit.numbers() == list(range(batches * size))
        assert sum(queue.stats()[:5]) == 0
