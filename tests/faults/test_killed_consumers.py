"""Consumers are killed at random while they work: every message is processed, none is settled by a stale holder."""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import redis

from rmq_core import LeasedQueue
from tests.faults import tally
from tests.faults.consumer import CONFIG
from tests.faults.crew import Member
from tests.faults.patience import eventually
from tests.servers import Server

CONSUMERS = 4


class Crew:
    """Four consumers; a killed one is replaced."""

    def __init__(self, ends: ExitStack, url: str, folder: Path) -> None:
        self.ends, self.url, self.folder = ends, url, folder
        self.numbers = itertools.count()
        self.members = [self.hire() for _ in range(CONSUMERS)]

    def hire(self) -> Member:
        number = next(self.numbers)
        flavour = "sync" if number % 2 else "async"
        return self.ends.enter_context(Member("consumer", flavour, self.url, str(self.folder / str(number))))

    def kill_one(self) -> None:
        place = random.randrange(CONSUMERS)
        self.members[place].kill()
        self.members[place] = self.hire()


def records(folder: Path) -> Iterator[tuple[str, int, list[str]]]:
    """Return everything that consumers logged."""
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            verb, fence, *payloads = line.split(" ")
            yield verb, int(fence), [payload for payload in payloads if payload]


def test_killed_consumers_lose_no_message_and_no_stale_holder_settles_one(
    own_server: Server, client: redis.Redis, tmp_path: Path, *, full_faults: bool
) -> None:
    total, kills = (20_000, 60) if full_faults else (3_000, 12)
    sent = [str(number) for number in range(total)]
    with ExitStack() as ends, LeasedQueue(own_server.url, "q", CONFIG) as queue:
        crew = Crew(ends, own_server.url, tmp_path)
        eventually(lambda: len(list(tmp_path.iterdir())) == CONSUMERS)
        for part in range(kills):
            queue.publish_many(sent[part * total // kills : (part + 1) * total // kills])
            time.sleep(random.uniform(0.1, 0.4))
            crew.kill_one()
        eventually(lambda: not sum(queue.stats()[:3]))
        assert queue.stats().dead == 0
    check(tmp_path, sent)


def check(folder: Path, sent: list[str]) -> None:
    deliveries, acks, stale = defaultdict(list), defaultdict(list), 0
    for verb, fence, payloads in records(folder):
        stale += verb == "stale"
        for payload in payloads:
            if verb in {"did", "acked"}:
                (deliveries if verb == "did" else acks)[payload].append(fence)
    tally.count("settle tried by a stale holder, refused", stale)
    assert set(deliveries) == set(sent), "0 lost"
    assert stale, "the refusals were not tried"
    for payload, fences in acks.items():
        assert fences == [max(deliveries[payload])], f"{payload} was settled by a stale holder"
