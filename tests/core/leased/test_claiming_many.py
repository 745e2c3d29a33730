"""A claim of many messages moves and reads them by plain commands: it gets what a claim through the script gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from rmq_core import Lease, LeasedConfig, LeasedQueue, LeaseLost
from tests.core.leases import drain, payloads
from tests.core.tenants import PASSWORD, USER, grant
from tests.core.worlds import World

MIB = 1 << 20
SIZES = {
    "small": [5] * 300,
    "large ones that samples miss": [5, 3 * MIB, 3 * MIB, 5, 3 * MIB, *[5] * 295],
    "a large one that is the first sample": [3 * MIB, *[5] * 299],
    "a large last one": [*[5] * 299, 3 * MIB],
    "8 MiB and more": [30_000] * 300,
}


def calls(client: redis.Redis, name: str) -> int:
    """Return how often a command was called since `config resetstat`."""
    return int(client.info("commandstats").get(f"cmdstat_{name}", {"calls": 0})["calls"])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("most", "lease_id"), [(100, None), (299, "job"), (299, None), (300, "job"), (301, None)])
def test_messages_of_any_sizes_are_claimed_in_order(world: World, sizes: str, most: int, lease_id: str | None) -> None:
    queue = world.queue(config=LeasedConfig(max_payload_bytes=4 * MIB))
    published = [str(at).ljust(size, "x") for at, size in enumerate(SIZES[sizes])]
    queue.publish_many(published)
    world.client.config_resetstat()
    lease = queue.claim(max_messages=most, lease_id=lease_id)
    lua = calls(world.client, "lpop")
    assert lease.count == min(most, 300)
    assert payloads(queue.messages(lease)) == published[:most]
    assert queue.stats()[:3] == (300 - lease.count, 0, lease.count)
    if sizes == "small":
        assert (lease.complete, lua) == (True, 0)
    if sum(SIZES[sizes][:most]) > 8 * MIB:  # an earlier part of it is moved at once, as far as it fits
        assert lua > 0
    assert queue.release(lease).settled == lease.count
    assert sorted(drain(queue)) == sorted(published)


@pytest.mark.parametrize("denied", ["", "-sort", "-memory"])
def test_a_user_who_may_not_copy_claims_the_same(redis_client: redis.Redis, server_url: str, denied: str) -> None:
    grant(redis_client, "leased", "q")
    if denied:
        redis_client.execute_command("ACL", "SETUSER", USER, denied)  # type: ignore[no-untyped-call]
    published = [str(number) for number in range(350)]
    try:
        with LeasedQueue(server_url.replace("redis://", f"redis://{USER}:{PASSWORD}@"), "q") as queue:
            queue.publish_many(published)
            redis_client.config_resetstat()
            first, last = held(queue, 200), held(queue, 150)
            assert payloads([*first.messages, *last.messages]) == published
            assert (calls(redis_client, "lpop") > 0) == bool(denied)
    finally:
        redis_client.acl_deluser(USER)


class Interposed(redis.Redis):
    """A client of another class, so that each command is sent alone; `act` happens before the next LRANGE."""

    act: Callable[[], object] | None = None

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if args[0] == "LRANGE" and self.act:
            self.act()
            self.act = None
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


@pytest.fixture
def between(redis_client: redis.Redis, server_url: str) -> Iterator[Interposed]:
    del redis_client  # requested because it empties the database
    with Interposed.from_url(server_url) as client:
        yield client


def held(queue: LeasedQueue, most: int = 200, **more: Any) -> Lease:
    lease = queue.claim(max_messages=most, **more)
    assert lease is not None
    return lease


def adopts(other: LeasedQueue) -> None:
    (found,) = other.admin.leases()
    other.adopt(found.id)


def expires(other: LeasedQueue) -> None:
    (found,) = other.admin.leases()
    other.admin.expire_lease(found.id)
    assert other.backlog().ready == 300


def expires_and_is_claimed_again(other: LeasedQueue) -> None:
    expires(other)
    held(other, lease_id="job")


@pytest.mark.parametrize("lease_id", [None, "job"])
@pytest.mark.parametrize("act", [adopts, expires, expires_and_is_claimed_again])
def test_messages_of_a_lease_that_another_holder_has_by_now_are_not_handed_out(
    redis_client: redis.Redis, between: Interposed, lease_id: str | None, act: Callable[[LeasedQueue], None]
) -> None:
    queue = LeasedQueue(between, "q")
    queue.publish_many([str(number) for number in range(300)])
    between.act = lambda: act(LeasedQueue(redis_client, "q"))
    lease = held(queue, lease_id=lease_id)
    assert (between.act, lease.envelopes) == (None, None)
    with pytest.raises(LeaseLost):
        list(queue.messages(lease))
    with pytest.raises(LeaseLost):
        queue.ack(lease)


def test_another_class_of_client_claims_many_and_the_next_many(between: Interposed) -> None:
    queue = LeasedQueue(between, "q")
    queue.publish_many([str(number) for number in range(500)])
    first = held(queue)
    after = queue.claim_next(ack=first, max_messages=300, wait=1)
    assert after is not None
    assert payloads([*first.messages, *after.messages]) == [str(number) for number in range(500)]
