"""The pattern itself: atomic transfer to the worker's list, ack by removing; see docs/reference/reliable.md."""

from __future__ import annotations

import pytest

import rmq_core
from rmq_core import LeaseLost
from rmq_core.reports import Outcome
from tests.core.leases import snapshot
from tests.core.reliable.bench import KEYS, drain, payloads, processing, worker
from tests.core.worlds import World


def test_messages_are_claimed_in_the_order_in_which_they_were_published(world: World) -> None:
    queue = worker(world)
    queue.publish("a")
    queue.publish_many(["b", "c"])
    assert drain(queue) == ["a", "b", "c"]


def test_a_claim_moves_the_oldest_message_whole_to_the_left_of_its_workers_list(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b", "c"])
    waiting = world.client.lrange(KEYS.queue, 0, -1)
    queue.claim()
    queue.claim()
    assert world.client.lrange(KEYS.queue, 0, -1) == waiting[:1]
    assert processing(world) == waiting[1:]


def test_a_claimed_message_stays_in_redis_until_it_is_acked(world: World) -> None:
    queue = worker(world)
    queue.publish("a")
    lease = queue.claim()
    assert len(processing(world)) == 1
    assert queue.ack(lease).settled == 1
    assert (processing(world), world.client.exists(KEYS.claims("w"), KEYS.queue)) == ([], 0)


def test_each_worker_has_its_own_list(world: World) -> None:
    one, other = worker(world, "one"), worker(world, "other")
    one.publish_many(["a", "b"])
    held = one.claim(), other.claim()
    assert payloads(lease.message for lease in held) == ["a", "b"]
    assert (len(processing(world, "one")), len(processing(world, "other"))) == (1, 1)
    one.ack(held[0])
    assert len(processing(world, "other")) == 1


def test_a_worker_without_a_name_gets_a_unique_one(world: World) -> None:
    one, other = world.open("reliable"), world.open("reliable")
    assert one.worker != other.worker
    one.publish("a")
    assert one.claim().owner == one.worker


def test_plain_commands_can_inspect_and_continue_the_pattern(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["first payload", "second payload"])
    moved = world.client.lmove(KEYS.queue, KEYS.processing("by hand"), "RIGHT", "LEFT")
    assert moved.endswith(b"first payload")
    lease = queue.claim()
    claim = world.client.hget(KEYS.claims("w"), lease.message.id)
    assert claim.split()[0].decode() == lease.token
    assert world.client.lrem(KEYS.processing("by hand"), 1, moved) == 1
    assert world.client.lrem(KEYS.processing("w"), 1, lease.envelopes[0]) == 1
    assert queue.ack(lease).settled == 0
    assert queue.claim() is None


def test_equal_payloads_are_acked_separately(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["same", "same"])
    first, second = queue.claim(), queue.claim()
    queue.ack(second)
    assert processing(world) == [first.envelopes[0]]
    queue.ack(first)
    assert processing(world) == []


def test_a_second_ack_changes_nothing_and_reports_it(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "a"])
    lease, _ = queue.claim(), queue.claim()
    queue.ack(lease)
    before = snapshot(world.client)
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    assert queue.ack(lease, [lease.message]).outcomes == (Outcome.LOST,)
    assert snapshot(world.client) == before


@pytest.mark.parametrize("payload", [b"\x00\xff|\r\n ", "żółw\n", {"a": [1, None]}, ["x"], "", b""])
def test_payloads_are_returned_unchanged(world: World, payload: object) -> None:
    queue = worker(world)
    queue.publish(payload, headers={"h": "v"})
    message = queue.claim().message
    assert (message.payload, message.headers, message.deliveries) == (payload, {"h": "v"}, 1)


def test_dead_letters_are_capped(world: World) -> None:
    queue = worker(world, max_deliveries=1, max_dead=2)
    queue.publish_many(["a", "b", "c"])
    queue.nack(queue.claim(max_messages=3))
    assert sorted(payloads(queue.admin.dead_letters(9))) == ["a", "b"]


def test_a_message_that_failed_is_claimed_alone_for_its_last_delivery(world: World) -> None:
    queue = worker(world, max_deliveries=2)
    queue.publish_many(["poison", "b", "c"])
    queue.nack(queue.claim())
    assert queue.claim(max_messages=3).count == 1


def test_an_entry_without_an_envelope_is_reported_and_dead_lettered_by_its_first_failure(world: World) -> None:
    queue = worker(world)
    world.client.lpush(KEYS.queue, b"pushed by hand")
    lease = queue.claim()
    with pytest.raises(rmq_core.MalformedMessage):
        _ = lease.message
    queue.extend(lease)
    assert queue.nack(lease).dead == 1
    assert world.client.lrange(KEYS.dead, 0, -1) == [b"pushed by hand"]
    assert queue.admin.redrive() == 1
    assert queue.ack(queue.claim()).settled == 1


def test_a_key_of_another_type_is_refused_before_anything_changes(world: World) -> None:
    queue = worker(world)
    queue.publish("a")
    lease = queue.claim()
    world.client.set(KEYS.dead, "x")
    before = snapshot(world.client)
    with pytest.raises(rmq_core.errors.WrongKeyType):
        queue.nack(lease)
    assert snapshot(world.client) == before
