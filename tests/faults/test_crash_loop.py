"""A message that kills whoever works on it ends among the dead letters, and takes nobody with it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from rmq_core import LeasedQueue
from tests.faults import tally
from tests.faults.crew import Member
from tests.faults.victim import CONFIG
from tests.redis.leases import key
from tests.servers import Server

PAYLOADS = [f"good {number}" for number in range(30)]


@contextmanager
def stocked(server: Server, client: redis.Redis, poison: int) -> Iterator[LeasedQueue]:
    """A queue of which one message kills."""
    client.flushall()
    with LeasedQueue(server.url, "q", CONFIG) as queue:
        queue.publish_many([*PAYLOADS[:poison], "poison", *PAYLOADS[poison:]])
        yield queue


def dies(url: str, *args: str) -> bool:
    """One life of a worker; whether its work killed it."""
    with Member("victim", url, *args) as victim:
        status = victim.wait()
    assert status in {0, -signal.SIGKILL}
    tally.count("process killed by its work", status == -signal.SIGKILL)
    return status == -signal.SIGKILL


def drain(url: str, client: redis.Redis, queue: LeasedQueue) -> int:
    """Workers take turns until nothing is left; how often one died."""
    deaths = 0
    while sum(queue.stats()[:3]):
        deaths += dies(url, "10")
        assert deaths <= CONFIG.max_deliveries
        for lease in queue.leases():  # their holder is dead: there is nothing to wait for
            client.zadd(key("leases"), {lease.id: 1}, xx=True)
    return deaths


def check_only_the_poison_died(queue: LeasedQueue) -> None:
    assert queue.stats()[:5] == (0, 0, 0, 0, 1)
    [letter] = queue.dead_letters()
    assert letter.payload == "poison"
    assert letter.deliveries == CONFIG.max_deliveries
    assert {failure.kind for failure in letter.history} == {"expired"}


@pytest.mark.parametrize("poison", [0, 4, 17])
def test_a_crash_loop_of_anonymous_claims_ends_with_one_dead_letter(
    own_server: Server, client: redis.Redis, poison: int
) -> None:
    with stocked(own_server, client, poison) as queue:
        assert 1 < drain(own_server.url, client, queue) <= CONFIG.max_deliveries
        check_only_the_poison_died(queue)


@pytest.mark.parametrize("poison", [0, 4])
def test_a_crash_loop_on_one_lease_id_ends_with_one_dead_letter_and_spares_its_neighbours(
    own_server: Server, client: redis.Redis, poison: int
) -> None:
    with stocked(own_server, client, poison) as queue:
        deaths = 0
        while dies(own_server.url, "10", "dag/run/task"):
            deaths += 1
            assert deaths <= CONFIG.max_deliveries
        deaths += drain(own_server.url, client, queue)
        assert 1 < deaths <= CONFIG.max_deliveries
        check_only_the_poison_died(queue)


def test_a_crash_loop_on_a_lease_of_one_message_delivers_it_as_often_as_allowed(
    own_server: Server, client: redis.Redis
) -> None:
    with stocked(own_server, client, 0) as queue:
        lives = [dies(own_server.url, "1", "dag/run/task") for _ in range(CONFIG.max_deliveries + 1)]
        assert lives == [True] * CONFIG.max_deliveries + [False]
        assert [letter.payload for letter in queue.dead_letters()] == ["poison"]
        assert queue.stats()[:5] == (29, 0, 0, 0, 1)
        assert queue.settled("dag/run/task").acked == 1
