"""Clients of a queue in shards on a cluster are killed at random, also while they change the number of shards.

Any client finishes what a killed one began. Nothing is lost, stored twice under one key, or settled by a stale holder.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from rmq_core import LeasedQueue
from tests.faults import tally
from tests.faults.crew import Member
from tests.faults.patience import eventually
from tests.faults.shards_client import CONFIG, key_of, payloads_of
from tests.servers import CLUSTERS, Cluster

CLIENTS = 5


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Cluster(CLUSTERS[request.param])
    yield made
    made.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    full = metafunc.config.getoption("faults") == "full"
    metafunc.parametrize("cluster", list(CLUSTERS)[: None if full else 1], indirect=True)


class Line(NamedTuple):
    """A line of the log of a client."""

    at_ms: int
    verb: str
    payloads: list[str]


def told(folder: Path) -> list[list[Line]]:
    """Return the logs of all clients."""
    logs = []
    for path in folder.iterdir():
        words = (line.split(" ") for line in path.read_text().splitlines())
        logs.append([Line(int(at_ms), verb, payloads) for verb, at_ms, *payloads in words])
    return logs


def test_killed_clients_lose_and_double_nothing(cluster: Cluster, tmp_path: Path, *, full_faults: bool) -> None:
    kills, numbers = 100 if full_faults else 10, itertools.count()
    last: list[str] = []
    with ExitStack() as ends, LeasedQueue(cluster.url, "q", CONFIG) as queue:
        queue.admin.configure(shards=3, max_deliveries=None)

        def hire() -> Member:
            number = next(numbers)
            flavour = "sync" if number % 2 else "async"
            return ends.enter_context(
                Member("shards_client", flavour, cluster.url, str(tmp_path / f"{number}"), f"c{number}")
            )

        members = [hire() for _ in range(CLIENTS)]
        for _ in range(kills):
            time.sleep(random.uniform(0.1, 0.6))
            place = random.randrange(CLIENTS)
            members[place].kill()
            members[place] = hire()
        for member in members:
            member.kill()

        def drained() -> bool:
            while lease := queue.claim(max_messages=5000, wait=0.1):
                last.extend(payloads_of(lease))
                queue.ack(lease)
            return not sum(queue.stats()[:3]) and not queue.admin.leases()

        eventually(drained)
        assert queue.stats().dead == 0
        queue.publish("still here")
        assert payloads_of(queue.claim()) == ["still here"]
    check(told(tmp_path), last)
    with cluster.client() as client:
        left = [each for each in client.scan_iter("rmq:*") if b":parts:" in each or b":lease:~@" in each]
    assert not left


def check(logs: list[list[Line]], last: list[str]) -> None:
    """Check the logs of all clients against each other and against `last`, the messages drained at the end."""
    stored, acked_ms, unsure = set[str](), dict[str, int](), set[str]()
    delivered: dict[str, list[int]] = defaultdict(list)
    for log in logs:
        pending: list[str] = []
        for at_ms, verb, payloads in log:
            if verb == "stored":
                stored.update(payloads)
            elif verb == "did":
                for each in payloads:
                    delivered[each].append(at_ms)
            elif verb == "tries":
                pending = payloads
            elif verb == "acked":
                for each in payloads:
                    assert each not in acked_ms, f"{each} was acked twice"
                    acked_ms[each] = at_ms
            if verb in {"acked", "gave"}:
                pending = [each for each in pending if each not in payloads]
            elif verb == "stale":
                tally.count("settle tried by a stale holder, refused")
                pending = []
        unsure.update(pending)
    assert len(last) == len(set(last)), "a message was stored twice"
    for payload in last:
        assert payload not in acked_ms, f"{payload} was acked, and delivered again"
    for payload, times in delivered.items():
        assert max(times) <= acked_ms.get(payload, max(times)), f"{payload} was acked, and delivered again"
    by_key: dict[str, set[str]] = defaultdict(set)
    for payload in (*stored, *delivered, *last):
        by_key[key_of(payload)].add(payload)
    twice = {key: found for key, found in by_key.items() if len(found) > 1}
    assert not twice, "a key was accepted twice"
    assert not stored - acked_ms.keys() - unsure - set(last), "messages are lost"
    assert len(acked_ms) > len(stored) / 2
