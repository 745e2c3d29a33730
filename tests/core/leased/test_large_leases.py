"""Leases that no single script can move: chunk by chunk, in order, and never more than 8 MiB at a time."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError, LeaseAlreadySettled, LeaseLost
from rmq_core.events import QueueEvent
from rmq_core.exchange.scripts import script
from rmq_core.leased.settling import nack
from rmq_core.reports import Outcome
from tests.core.leases import engine_of, expire, key, payloads, run
from tests.core.worlds import World

MANY = 10_001
NUMBERS = [str(n) for n in range(MANY)]
MIB = 1 << 20


def large_lease(queue: Any, **options: Any) -> Any:
    """Claim all messages into a lease that is filled in chunks: it asks for fewer than there are."""
    queue.publish_many([*NUMBERS, "one more"])
    lease = queue.claim(max_messages=MANY, **options)
    assert lease.count == MANY
    assert queue.admin.cancel(queue.admin.peek()[0].id)
    return lease


def test_a_large_lease_is_filled_in_chunks_and_read_in_slices(world: World) -> None:
    queue = world.queue()
    lease = large_lease(queue)
    assert queue.stats()[:4] == (0, 0, MANY, 1)
    with pytest.raises(ConfigurationError, match=r"queue\.messages"):
        lease.messages  # noqa: B018
    assert payloads(queue.messages(lease)) == NUMBERS
    assert payloads(queue.read(lease, 3_998, 4_003)) == NUMBERS[3_998:4_003]
    assert payloads(queue.read(lease, 500)) == NUMBERS[500:]
    assert [message.index for message in queue.read(lease, 9_990)] == list(range(9_990, MANY))
    assert queue.read(lease, MANY, MANY + 5) == queue.read(lease, 7, 7) == []
    assert queue.ack(lease).settled == MANY
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_no_reply_exceeds_its_limit_when_large_messages_follow_small_ones(world: World) -> None:
    queue, keys = world.queue(), engine_of(world.queue()).keys
    published = ["small"] * 300 + ["x" * 1_000_000] * 40
    queue.publish_many(published)
    lease = queue.claim(max_messages=len(published), lease_id="job")
    read = script(
        "leased/read", lease=keys.lease("job"), settled=keys.settled("job"), token="", first=0, last=len(published) - 1
    )
    envelopes = run(world, queue, read)[4]
    assert len(envelopes) > 300
    assert sum(map(len, envelopes)) <= 8 * MIB
    assert payloads(queue.messages(lease)) == published


@pytest.mark.parametrize("more", [0, 5])
def test_all_ready_messages_become_a_large_lease_without_popping_each_of_them(world: World, more: int) -> None:
    queue = world.queue()
    queue.publish_many(NUMBERS)
    queue.nack(queue.claim(max_messages=2))
    assert queue.ack(queue.claim()).settled == queue.ack(queue.claim()).settled == 1
    popped = commands(world, "lpop")
    lease = queue.claim(max_messages=MANY - 2 + more, lease_id="all")
    assert (lease.count, commands(world, "lpop")) == (MANY - 2, popped)
    assert queue.stats()[:4] == (0, 0, MANY - 2, 1)
    queue.publish("behind")
    assert payloads(queue.messages(lease)) == NUMBERS[2:]
    assert queue.nack(lease).settled == MANY - 2
    assert payloads(queue.admin.peek(MANY)) == [*NUMBERS[2:], "behind"]


def commands(world: World, name: str) -> int:
    return int(world.client.info("commandstats").get(f"cmdstat_{name}", {"calls": 0})["calls"])


def test_reading_a_lost_lease_fails_rather_than_giving_fewer_messages(world: World) -> None:
    queue = world.queue()
    lease = large_lease(queue)
    reading = iter(queue.messages(lease))
    assert next(reading).payload == "0"
    queue.adopt(lease.id, owner="thief")
    with pytest.raises(LeaseLost):
        list(reading)


@pytest.mark.parametrize("verb", ["nack", "release", "expire"])
def test_a_large_lease_is_requeued_completely_and_in_order(world: World, verb: str) -> None:
    queue = world.queue()
    lease = large_lease(queue)
    queue.publish("behind")
    if verb == "expire":
        expire(world, lease.id)
        assert queue.backlog().ready == MANY + 1
    else:
        assert getattr(queue, verb)(lease).settled == MANY
    back = queue.admin.peek(2 * MANY)
    assert payloads(back) == [*NUMBERS, "behind"]
    assert {message.deliveries for message in back[:-1]} == {0 if verb == "release" else 1}
    assert world.client.exists(key(f"lease:{lease.id}")) == world.client.zcard(key("leases")) == 0


def test_some_messages_of_a_large_lease_are_settled_at_any_position(world: World) -> None:
    queue = world.queue()
    lease = large_lease(queue, lease_id="job")
    chosen = [message for n in (0, 3_999, 4_000, 8_192, MANY - 1) for message in queue.read(lease, n, n + 1)]
    assert queue.ack(lease, chosen).outcomes == (Outcome.SETTLED,) * 5
    assert queue.nack(lease, queue.read(lease, 5_000, 5_002)).outcomes == (Outcome.SETTLED,) * 2
    assert queue.ack(lease, chosen[::-1]).outcomes == (Outcome.SETTLED_BEFORE,) * 5
    gone = {0, 3_999, 4_000, 8_192, MANY - 1, 5_000, 5_001}
    left = [n for n in range(MANY) if n not in gone]
    assert [message.index for message in queue.messages(lease)] == left
    assert queue.lease_info("job").settled == 7
    assert queue.release(lease).settled == len(left)
    assert payloads(queue.admin.peek(MANY)) == [*map(str, left), "5000", "5001"]


def test_large_payloads_move_no_more_than_eight_mebibytes_a_script(world: World) -> None:
    events: list[QueueEvent] = []
    queue = world.queue(on_event=events.append)
    big = [bytes([n]) * MIB for n in range(20)]
    queue.publish_many(big)
    events.clear()
    lease = queue.claim(max_messages=20)
    assert lease.count == 20
    assert [event.count for event in events] == [8, 12]
    assert payloads(queue.messages(lease)) == big
    events.clear()
    assert queue.release(lease).settled == 20
    assert [event.count for event in events] == [8, 8, 4]
    lease = queue.claim(max_messages=20)
    expire(world, lease.id)
    events.clear()
    assert queue.backlog().ready == 20
    assert [event.count for event in events] == [8, 8, 4]
    assert drain_large(queue) == big


def test_large_payloads_behind_small_ones_are_measured_before_they_are_moved(world: World) -> None:
    events: list[QueueEvent] = []
    queue = world.queue(on_event=events.append)
    mixed = [*[b"small"] * 200, *[bytes([n]) * MIB for n in range(20)]]
    queue.publish_many(mixed)
    events.clear()
    lease = queue.claim(max_messages=300)
    assert [event.count for event in events] == [208, 12]
    assert payloads(queue.messages(lease)) == mixed
    events.clear()
    assert queue.release(lease).settled == 220
    assert [event.count for event in events] == [8, 8, 204]


def drain_large(queue: Any) -> list[bytes]:
    found = []
    while lease := queue.claim(max_messages=20):
        found += payloads(queue.messages(lease))
        queue.ack(lease)
    return found


def test_an_ack_after_an_interrupted_nack_leaves_a_record_and_a_repeated_claim_is_refused(world: World) -> None:
    queue = world.queue()
    queue.publish_many(NUMBERS[:4_500])
    lease = queue.claim(max_messages=4_500, lease_id="job")
    nack_one_chunk(world, queue, lease)
    assert queue.stats()[:3] == (1_000, 0, 3_500)
    assert queue.ack(lease).settled == 3_500
    assert queue.settled("job").acked == 3_500
    with pytest.raises(LeaseAlreadySettled):
        queue.claim(lease_id="job", max_messages=5_000)


def test_the_record_counts_what_was_acked_before_an_interrupted_nack(world: World) -> None:
    queue = world.queue()
    queue.publish_many(NUMBERS[:4_500])
    lease = queue.claim(max_messages=4_500, lease_id="job")
    queue.ack(lease, list(queue.read(lease, 0, 500)))
    nack_one_chunk(world, queue, lease)
    assert queue.ack(lease).settled == 3_000
    assert queue.settled("job").acked == 3_500


def test_an_interrupted_nack_of_a_partly_settled_lease_loses_nothing(world: World) -> None:
    queue = world.queue()
    queue.publish_many(NUMBERS[:3_000])
    lease = queue.claim(max_messages=3_000, lease_id="job")
    newest = list(queue.read(lease, 2_000, 3_000))
    assert queue.ack(lease, newest).settled == 1_000
    assert run(world, queue, next(nack(engine_of(queue), lease))).startswith(b"returned 0 2000")
    retry = queue.claim(lease_id="job")
    assert (queue.stats().leased, queue.lease_info("job").settled) == (2_000, 0)
    assert queue.ack(retry, list(queue.read(retry, 0, 1_000))).settled == 1_000
    assert payloads(queue.messages(retry)) == NUMBERS[1_000:2_000]
    assert queue.ack(retry).settled == 1_000


def nack_one_chunk(world: World, queue: Any, lease: Any) -> None:
    assert run(world, queue, next(nack(engine_of(queue), lease))).startswith(b"returned 1000 3500")


def test_reading_and_browsing_a_lease_return_unsettled_messages(world: World) -> None:
    queue = world.queue()
    queue.publish_many([str(number) for number in range(30)], headers={"a": "b"})
    lease = queue.claim(max_messages=30, lease_id="job")
    queue.ack(lease, [message for message in lease.messages if message.index % 3 == 1])
    read = queue.read(lease, 4, 25)
    assert [message.index for message in read] == [index for index in range(4, 25) if index % 3 != 1]
    assert world.queue().admin.browse_lease("job", 4, 25) == read
    assert world.queue().admin.browse_lease("no such lease") == []
