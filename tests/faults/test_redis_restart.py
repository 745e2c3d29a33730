"""Redis is killed and restarted under load. With `appendfsync always`, whatever it acknowledged is still true.

So also what groups promise: their order, their only holder, their rates, and the counts of a publication.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from rmq_core import LeasedConfig, RedisSettings
from tests.core.leased.groups import Claims
from tests.core.worlds import AsyncWorld, SyncWorld, World
from tests.faults import tally
from tests.faults.holders import check_nothing_is_left
from tests.faults.patience import eventually
from tests.servers import Server, start_server

LEASE_MS = 600_000
CONFIG = LeasedConfig(lease=LEASE_MS / 1000, retry_budget=60)


@pytest.fixture(scope="module")
def durable_server(own_server: Server) -> Iterator[Server]:
    """A server whose acknowledged writes are on disk."""
    server = start_server(own_server.name, "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


@pytest.fixture(params=[SyncWorld, AsyncWorld], ids=["sync", "async"])
def there(request: pytest.FixtureRequest, durable_server: Server) -> Iterator[World]:
    with durable_server.client() as client:
        client.flushall()
        with request.param(durable_server.url, client) as made:
            yield made


RATES = {"rate": "20000/1s burst 2000", "group_rate": "10000/1s burst 1000"}


class Load:
    """Producers of all kinds, and consumers; all log what they did. Each producer has a group, if there are groups."""

    def __init__(self, world: World, *, groups: bool = False) -> None:
        self.world, self.over, self.groups = world, threading.Event(), groups
        self.claims = Claims(**(RATES if groups else {}))
        self.published: list[str] = []
        self.delivered: list[str] = []
        self.acked: list[str] = []
        self.producers = [world.in_background(self._produce, number, one) for number, one in enumerate(self._ways())]
        self.consumers = [world.in_background(self._consume, next_one=next_one) for next_one in (False, False, True)]

    def _ways(self) -> list[Callable[[str, dict[str, str]], list[str]]]:
        queue = self._queue()
        return [
            lambda name, of: [name] * queue.publish(name, **of).accepted,
            lambda name, of: [name] * queue.publish(name, dedup_key=name, **of).accepted,
            lambda name, of: _many(queue.publish_many(names := _names(name, 20), **of).accepted, names),
            lambda name, of: _many(queue.publish_many(names := _names(name, 1500), **of).accepted, names),
        ]

    def _queue(self) -> object:
        settings = RedisSettings.from_url(self.world.url, socket_timeout=2)
        return self.world.queue("q", CONFIG, settings=settings)

    def _produce(self, number: int, publish: Callable[[str, dict[str, str]], list[str]]) -> None:
        turn, of = 0, {"group": str(number), "publication": "all"} if self.groups else {}
        while not self.over.is_set():
            self.published += publish(f"{number}.{turn}", of)
            turn += 1
            time.sleep(0.2 if number == 3 else 0.002)

    def _consume(self, *, next_one: bool) -> None:
        queue, lease = self._queue(), None
        while not (lease is None and self.over.is_set()):
            if lease is None:
                lease = queue.claim(max_messages=50, wait=0.5)
                continue
            payloads = [message.payload for message in lease.messages]
            self.delivered += payloads
            self.claims.add(lease.deadline_ms - LEASE_MS, (payload.split(".")[0] for payload in payloads))
            if next_one:
                lease = queue.claim_next(ack=lease, max_messages=50)
            else:
                queue.ack(lease)
                lease = None
            self.acked += payloads

    def end(self) -> None:
        """Stop the producers, and let consumers work until nothing is left."""
        self.over.set()
        for one in (*self.producers, *self.consumers):
            one.result(120)


def _names(name: str, count: int) -> list[str]:
    return [f"{name}.{number}" for number in range(count)]


def _many(accepted: int, names: list[str]) -> list[str]:
    assert accepted == len(names)
    return names


@pytest.mark.parametrize("groups", [False, True], ids=["one line", "groups"])
def test_killing_redis_under_load_loses_nothing_it_acknowledged_and_doubles_nothing(
    there: World, durable_server: Server, *, groups: bool, full_faults: bool
) -> None:
    if groups:
        there.queue().admin.configure(groups="exclusive", **RATES)
    load = Load(there, groups=groups)
    for _ in range(12 if full_faults else 3):
        mark = len(load.acked)
        eventually(lambda mark=mark: len(load.acked) > mark + 200)
        time.sleep(random.uniform(0, 0.2))
        durable_server.kill9()
        tally.count("Redis killed under load")
        time.sleep(random.uniform(0, 0.3))
        durable_server.restart()
    load.end()
    queue = there.queue("q", CONFIG)
    while lease := queue.claim(max_messages=1000):
        load.delivered += [message.payload for message in lease.messages]
        queue.ack(lease)
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    assert max(Counter(load.published).values()) == 1
    assert Counter(load.delivered) == Counter(load.published)
    if groups:
        for group in map(str, range(4)):
            orders = ([text for text in texts if text[0] == group] for texts in (load.delivered, load.published))
            assert len({*map(tuple, orders)}) == 1, f"the order of group {group}"
        assert load.claims.excess() <= 0
        report = queue.publication("all")
        assert report.done
        assert report[1:7] == (len(load.published), 0, 0, len(load.published), 0, 0)
        check_nothing_is_left(there.client, queue)


def test_leases_tokens_and_call_slots_survive_the_restart(there: World, durable_server: Server) -> None:
    queue = there.queue("q", CONFIG)
    queue.publish_many(["a", "b", "c", "d"])
    first, second = queue.claim(lease_id="job"), queue.claim(max_messages=2)
    queue.ack(second, [second.messages[0]])
    durable_server.kill9()
    durable_server.restart()
    tally.count("Redis killed under load")
    assert [message.payload for message in queue.read(second)] == ["c"]
    assert queue.extend(second) is not None
    assert queue.ack(second).settled == 1
    assert queue.ack(first).settled == 1
    assert queue.settled("job").acked == 1
    assert queue.claim().message.payload == "d"
