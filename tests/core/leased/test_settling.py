from __future__ import annotations

import pytest

from rmq_core import LeasedConfig, LeaseLost
from rmq_core.reports import Outcome, SettleReport
from tests.core.leases import drain, expire, key, payloads, snapshot
from tests.core.worlds import World

S, D, B, M, L = Outcome.SETTLED, Outcome.DEAD, Outcome.SETTLED_BEFORE, Outcome.MISSING, Outcome.LOST


def test_acked_messages_are_deleted(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    assert queue.ack(queue.claim(max_messages=3)) == SettleReport(3)
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    assert set(world.client.scan_iter()) - set(world.client.scan_iter(key("slot:*"))) == {
        b"rmq:queues", key("fence").encode(), key("history").encode(), key("clients").encode(),
    }  # fmt: skip


def test_a_nacked_message_is_first_again_with_its_failure_in_its_history(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    lease = queue.claim(max_messages=2, owner="worker 1")
    assert queue.nack(lease, reason="bad\tday,\nsaid  the DB\u2028") == SettleReport(2)
    first, second, third = (queue.claim().message for _ in range(3))
    assert payloads([first, second, third]) == ["a", "b", "c"]
    assert (first.id, first.deliveries, third.deliveries) == (lease.messages[0].id, 2, 1)
    ((kind, at, owner, reason),) = first.history
    assert (kind, owner, reason) == ("nack", "worker 1", "bad day, said the DB")
    assert first.enqueued_at <= at
    assert third.history == ()


def test_released_messages_are_ready_again_unchanged(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    assert queue.release(queue.claim(max_messages=2)) == SettleReport(2)
    lease = queue.claim(max_messages=3)
    assert payloads(lease.messages) == ["a", "b", "c"]
    assert [message.deliveries for message in lease.messages] == [1, 1, 1]
    assert lease.messages[0].history == ()


def test_a_message_that_fails_too_often_becomes_a_dead_letter(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=3))
    published = queue.publish("poison", headers={"h": "1"})
    reports = [queue.nack(queue.claim(owner=f"w{n}"), reason=f"reason {n}") for n in range(3)]
    assert reports == [SettleReport(1), SettleReport(1), SettleReport(1, 1)]
    assert queue.claim() is None
    (dead,) = queue.admin.dead_letters()
    assert (dead.id, dead.payload, dead.headers, dead.deliveries) == (published.id, "poison", {"h": "1"}, 3)
    told = [(failure.kind, failure.owner, failure.reason) for failure in dead.history]
    assert told == [("nack", f"w{n}", f"reason {n}") for n in range(3)]


def test_without_max_deliveries_a_message_is_delivered_forever(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=None))
    queue.publish("x")
    for _ in range(30):
        assert queue.nack(queue.claim(), reason="r" * 300) == SettleReport(1)
    message = queue.claim().message
    assert message.deliveries == 31
    assert 0 < len(message.history) < 30
    assert {failure.reason for failure in message.history} == {"r" * 200}


def test_the_history_of_a_message_stays_short_even_when_owners_have_long_names(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=None))
    queue.publish("x")
    for _ in range(3):
        queue.nack(queue.claim(owner="ż" * 512), reason="🦄" * 200)
    assert len(world.client.lindex(key("ready"), 0)) < 2000
    message = queue.claim().message
    assert (message.payload, [failure.kind for failure in message.history]) == ("x", ["nack"])


def test_some_messages_of_a_lease_can_be_settled_and_the_rest_stays_leased(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abcdef"])
    lease = queue.claim(max_messages=5)
    a, b, c, d, _ = lease.messages
    assert queue.ack(lease, [b]) == SettleReport(1, 0, (S,))
    assert queue.nack(lease, [c.ref], reason="why") == SettleReport(1, 0, (S,))
    assert queue.release(lease, [d]) == SettleReport(1, 0, (S,))
    assert queue.ack(lease, [d, a, b]) == SettleReport(1, 0, (B, S, B))
    assert payloads(queue.messages(lease)) == payloads(queue.read(lease)) == ["e"]
    assert queue.stats()[:4] == (3, 0, 1, 1)
    assert queue.ack(lease) == SettleReport(1)
    back = queue.claim(max_messages=10).messages
    assert sorted((message.payload, message.deliveries) for message in back) == [("c", 2), ("d", 1), ("f", 1)]


def test_settling_the_last_message_ends_the_lease_and_leaves_the_record(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    lease = queue.claim(max_messages=3, lease_id="job")
    for message in lease.messages:
        assert queue.settled("job") is None
        assert queue.ack(lease, [message]).outcomes == (S,)
    assert queue.settled("job").acked == 3
    assert (queue.lease_info("job"), queue.stats().leases) == (None, 0)
    assert lease.state.settled
    assert queue.ack(lease, lease.messages).outcomes == (L, L, L)


def test_releasing_the_rest_of_a_lease_excludes_what_was_settled(world: World) -> None:
    queue = world.queue()
    for verb in ("nack", "release", "expire"):
        queue.publish_many([*"abcde"])
        lease = queue.claim(max_messages=5, lease_id="job")
        queue.ack(lease, lease.messages[1:4])
        if verb == "expire":
            expire(world, "job")
            assert queue.backlog().ready == 2
        else:
            assert getattr(queue, verb)(lease) == SettleReport(2)
        assert drain(queue) == ["a", "e"]


def test_settling_some_messages_of_a_lost_lease_reports_each_as_lost(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    stale = queue.claim(max_messages=2, lease_id="job")
    queue.claim(lease_id="job")
    before = snapshot(world.client)
    for verb in (queue.ack, queue.nack, queue.release):
        assert verb(stale, stale.messages) == SettleReport(0, 0, (L, L))
    assert stale.lost
    assert snapshot(world.client) == before


def test_a_lease_that_ends_before_its_last_chunk_counts_as_settled_and_not_as_lost(world: World) -> None:
    queue = world.queue()
    queue.publish_many("x" for _ in range(2500))
    lease = queue.claim(max_messages=2500)
    messages = list(queue.messages(lease))
    queue.ack(lease, messages[:1000])
    assert queue.ack(lease, messages) == SettleReport(1500, 0, (B,) * 1000 + (S,) * 1500)
    assert (lease.lost, lease.state.lost, lease.state.settled) == (False, False, True)


@pytest.mark.parametrize("verb", ["ack", "nack", "release"])
def test_settling_twice_changes_nothing_the_second_time(world: World, verb: str) -> None:
    queue = world.queue()
    queue.publish("x")
    lease = queue.claim()
    getattr(queue, verb)(lease)
    before = snapshot(world.client)
    with pytest.raises(LeaseLost):
        getattr(queue, verb)(lease)
    assert not lease.lost
    assert snapshot(world.client) == before
