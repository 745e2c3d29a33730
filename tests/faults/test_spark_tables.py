"""A driver that appends batches to a table is killed at random, and Redis is: each message is in the table once.

In full length there are 200 kill points over 20,000 messages in 100 batches, for each kind of table.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
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
from tests.spark.readers import publish
from tests.spark.table_kits import KITS

ANY_TIME = "any time between claim and ack"
BEFORE_COMMIT, BEFORE_ACK, REDIS = "computed", "committed", "Redis"
KILLS = [BEFORE_COMMIT, BEFORE_ACK, "acked", ANY_TIME, REDIS]
LONGEST_S = 0.08  # of the wait before a kill at any time: about a batch


class Lives:
    """The lives of a driver, and how often it reached which point."""

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
            time.sleep(self.chance.uniform(0, LONGEST_S))
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
    chance = random.Random(kind)
    kit = KITS[kind](tmp_path)
    with (
        LeasedQueue(RedisSettings.from_url(durable.url), QUEUE) as queue,
        Member("table_driver", durable.url, str(tmp_path), kind, str(batches), str(size)) as member,
    ):
        publish(queue, batches * size)
        assert member.hear() == "ready"
        lives = Lives(member, durable, chance)
        kinds = cycle(KILLS)
        for kills in range(2 * batches):
            # Half a batch for each kill: a driver that was ahead of that is killed before its next commit.
            kill = next(kinds) if lives.next < kills // 2 else BEFORE_COMMIT
            assert lives.kill(kill)
            tally.count(f"driver of a table killed ({kind}): {kill}")
        lives.begin()
        lives.hear_until("ended")
        assert lives.reached["done"] == 1
        again = lives.reached["computed"] - batches
        tally.count(f"batch computed again, {kind}", again)
        tally.count(f"batch that a keyed merge would have computed again, {kind}", again + lives.reached["found"])
        assert kit.numbers() == list(range(batches * size))
        assert sum(queue.stats()[:5]) == 0
