"""Workers are killed at random while they work: every message is processed, none is lost."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from rmq_core import Reaper, ReliableQueue, open_queue
from tests.faults import tally
from tests.faults.crew import Member
from tests.faults.patience import eventually
from tests.faults.worker import CONFIGS
from tests.servers import Server

WORKERS = 3


class Crew:
    """Workers; a killed one is replaced by one with another name."""

    def __init__(self, discipline: str, ends: ExitStack, url: str, folder: Path) -> None:
        self.discipline = discipline
        self.ends, self.url, self.folder = ends, url, folder
        self.numbers = itertools.count()
        self.members = [self.hire() for _ in range(WORKERS)]

    def hire(self) -> Member:
        number = next(self.numbers)
        flavour = "sync" if number % 2 else "async"
        return self.ends.enter_context(
            Member("worker", self.discipline, flavour, self.url, str(self.folder / str(number)))
        )

    def kill_one(self) -> None:
        place = random.randrange(WORKERS)
        self.members[place].kill()
        self.members[place] = self.hire()


def records(folder: Path) -> Iterator[tuple[str, str]]:
    """Return everything that workers logged."""
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            verb, payload = line.split(" ")
            yield verb, payload


@contextmanager
def reaping(queue: Any) -> Iterator[None]:
    """Run two reapers at once, where the discipline needs them."""
    stop = threading.Event()
    made = [Reaper(queue, interval=0.1) for _ in range(2)] if isinstance(queue, ReliableQueue) else []
    threads = [threading.Thread(target=reaper.run, args=(stop,)) for reaper in made]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("discipline", list(CONFIGS))
def test_killed_workers_lose_no_message(
    own_server: Server, client: redis.Redis, tmp_path: Path, discipline: str, *, full_faults: bool
) -> None:
    total, kills = (20_000, 60) if full_faults else (1_500, 8)
    sent, queue = [str(number) for number in range(total)], open_queue(client, "q", discipline, CONFIGS[discipline])
    with ExitStack() as ends, reaping(queue):
        crew = Crew(discipline, ends, own_server.url, tmp_path)
        eventually(lambda: len(list(tmp_path.iterdir())) == WORKERS)
        for part in range(kills):
            queue.publish_many(sent[part * total // kills : (part + 1) * total // kills])
            time.sleep(random.uniform(0.1, 0.3))
            crew.kill_one()
        eventually(lambda: not sum(queue.stats()[:5]))
    queue.close()
    told = list(records(tmp_path))
    did, acked = (Counter(payload for said, payload in told if said == verb) for verb in ("did", "acked"))
    tally.count("settle tried by a stale holder, refused", sum(verb == "stale" for verb, _ in told))
    tally.count("message delivered more than once", sum(times > 1 for times in did.values()))
    assert set(did) == set(sent), "0 lost"
    assert not queue.capabilities.fenced or max(acked.values()) == 1, "no message is acked twice"
