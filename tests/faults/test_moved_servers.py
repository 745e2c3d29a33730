"""The data files of Redis 7.0 are loaded by a newer server: every key arrives as it was, and every lease lives on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import pytest

from rmq_core import Lease, LeaseLost, WorkQueue, open_queue
from rmq_core.protocol import DISCIPLINES
from tests.core.conformance.kits import DELIVERIES, KITS, LONG_S, SHORT_S
from tests.core.stored.golden import dump, load, now_ms
from tests.core.stored.scenes import SCENES, golden
from tests.faults import tally
from tests.servers import NAMES, Server, start_server

OLD = "7.0"
SAME = "faults/test_moved_servers.py::test_a_queue_goes_on_with_its_leases_on_the_new_server"
FILES: dict[str, list[str]] = {"rdb": [], "aof": ["--appendonly", "yes"]}
ROUTES = [
    ("rdb", "8.0"), ("aof", "valkey-8.1"),
    *(
        pytest.param(route, marks=pytest.mark.nightly(SAME))
        for route in (("aof", "8.0"), ("rdb", "8.6"), ("aof", "8.6"), ("rdb", "valkey"), ("aof", "valkey"))
        if route[1] in NAMES
    ),
]  # fmt: skip


class Moving(NamedTuple):
    """A server of version 7.0, and the version that will load its data files."""

    server: Server
    new: str

    def move(self) -> None:
        """End the old server in an orderly way, and start the new one on the same files and port."""
        with self.server.client() as client:
            if client.config_get("appendonly")["appendonly"] == "no":
                client.save()
        self.server.name = self.new
        self.server.restart()
        tally.count("data files loaded by another server")


@pytest.fixture(params=ROUTES, ids=" to ".join)
def moving(request: pytest.FixtureRequest) -> Iterator[Moving]:
    """A server whose data is kept in a file, with a database for every scene."""
    files, new = request.param
    server = start_server(OLD, "--databases", str(len(SCENES)), *FILES[files])
    yield Moving(server, new)
    server.stop()


def test_the_new_server_has_every_key_of_every_state_of_a_queue(moving: Moving) -> None:
    since: dict[str, int] = {}
    for database, name in enumerate(SCENES):
        with moving.server.client(db=database) as client:
            since[name] = now_ms(client)
            load(client, golden(name))
    moving.move()
    for database, name in enumerate(SCENES):
        with moving.server.client(db=database) as client:
            assert dump(client, since[name]) == golden(name), name


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_queue_goes_on_with_its_leases_on_the_new_server(moving: Moving, discipline: str) -> None:
    url = moving.server.url
    with ExitStack() as ends:
        kit = KITS[discipline]
        queue = ends.enter_context(closing(open_queue(url, "q", discipline, config=kit.config("q", LONG_S))))
        able = queue.capabilities
        payloads: list[Any] = [str(number) if able.payload == "id" else {"n": number} for number in range(6)]
        if able.dead_letters:
            queue.publish(payloads[0])
            for _ in range(DELIVERIES):
                queue.nack(claimed(queue), reason="it failed")
        queue.publish_many(payloads)
        acked, nacked, released = claimed(queue), claimed(queue), claimed(queue)
        if able.delay:
            queue.publish(payloads[0], delay=LONG_S)
        short = open_queue(url, "q", discipline, config=kit.config("q", SHORT_S if able.fenced else LONG_S))
        lost = claimed(ends.enter_context(closing(short)))
        before = queue.stats()
        moving.move()
        after = queue.stats()
        assert after._replace(oldest_age=None, oldest_lease=None) == before._replace(oldest_age=None, oldest_lease=None)
        if able.extend:
            queue.extend(acked)
        assert queue.ack(acked).settled == 1
        queue.nack(nacked, reason="it failed on the new server")
        queue.release(released)
        dead = queue.admin.redrive() if able.dead_letters else 0
        assert dead == able.dead_letters
        if not able.fenced:
            queue.ack(lost)
        elif kit.recover:
            kit.recover(queue)
        other = open_queue(url, "q", discipline, config=short.config) if able.fenced else queue
        assert drained(ends.enter_context(closing(other))) == 4 + able.fenced + dead
        if able.fenced:
            with pytest.raises(LeaseLost):
                short.ack(lost)
        queue.publish(payloads[0])
        assert drained(queue) == 1
        left = queue.stats()
        assert (left.ready, left.delayed, left.leased, left.dead) == (0, able.delay, 0, 0)


def claimed(queue: WorkQueue) -> Lease:
    """Claim one message; it is there."""
    lease = queue.claim(wait=10)
    assert lease is not None
    return lease


def drained(queue: WorkQueue) -> int:
    """Ack all messages, and return their number."""
    count = 0
    while lease := queue.claim(wait=0.3):
        count += queue.ack(lease).settled
    return count
