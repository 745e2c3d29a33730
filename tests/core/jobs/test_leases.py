"""Claiming jobs under a lease, as orchestrators do: fencing, takeover, expiry, parts, large leases."""

from __future__ import annotations

import pytest

from rmq_core import LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther
from rmq_core.reports import Outcome, SettleReport
from tests.core.jobs.bench import KEYS, jobs, payloads
from tests.core.worlds import World


def expire(world: World, lease_id: str) -> None:
    world.client.zadd(KEYS.leases, {lease_id: 1})


def test_a_claim_takes_jobs_off_the_stream_and_holds_them(world: World) -> None:
    queue = jobs(world)
    queue.publish_many(["a", "b", "c"])
    lease = queue.claim(max_messages=2, owner="me")
    assert [(m.payload, m.deliveries) for m in lease.messages] == [("a", 1), ("b", 1)]
    assert (world.client.xlen(KEYS.ready), queue.stats()[:4]) == (1, (1, 0, 2, 1))
    (info,) = queue.admin.leases()
    assert (info.id, info.owner, info.count, info.settled) == (lease.id, "me", 2, 0)


def test_a_former_holder_settles_nothing(world: World) -> None:
    queue = jobs(world)
    queue.publish("a")
    old = queue.claim(lease_id="job")
    new = queue.claim(lease_id="job")
    for call in (queue.ack, queue.nack, queue.release, queue.extend):
        with pytest.raises(LeaseLost):
            call(old)
    assert queue.ack(old, [old.messages[0]]).outcomes == (Outcome.LOST,)
    assert new.messages[0].deliveries == 2
    assert queue.ack(new).settled == 1


def test_a_lease_acked_as_a_whole_is_recognized_although_a_job_was_nacked(world: World) -> None:
    queue = jobs(world)
    queue.publish_many(["a", "b", "c"])
    lease = queue.claim(max_messages=3, lease_id="job")
    queue.nack(lease, [lease.messages[0]], delay=60)
    assert queue.ack(lease).settled == 2
    with pytest.raises(LeaseAlreadySettled) as settled:
        queue.claim(lease_id="job")
    assert settled.value.acked == 2


def test_a_lease_and_its_outcome_can_be_found_by_its_id(world: World) -> None:
    queue = jobs(world)
    queue.publish_many(["a", "b"])
    lease = queue.claim(max_messages=2, lease_id="job", owner="me")
    queue.ack(lease, [lease.messages[0]])
    info = queue.lease_info("job")
    assert (info.owner, info.count, info.settled, queue.settled("job")) == ("me", 2, 1, None)
    queue.ack(lease)
    assert queue.lease_info("job") is None
    assert queue.settled("job")[:3] == ("job", 2, "me")


def test_a_lease_is_adopted_by_its_id(world: World) -> None:
    queue = jobs(world)
    queue.publish("a")
    held = queue.claim(lease_id="job", owner="try 1")
    with pytest.raises(LeaseOwnedByOther):
        queue.adopt("job", if_owner="try 2")
    adopted = queue.adopt("job", if_owner="try 1")
    assert (adopted.owner, adopted.takeovers) == ("try 1", 0)
    with pytest.raises(LeaseLost):
        queue.ack(held)
    assert [m.payload for m in queue.messages(adopted)] == ["a"]
    with pytest.raises(LeaseLost):
        queue.adopt("other")


def test_a_takeover_past_the_last_attempt_dead_letters(world: World) -> None:
    queue = jobs(world, max_attempts=2)
    queue.publish("a")
    queue.claim(lease_id="job")
    queue.claim(lease_id="job")
    assert queue.claim(lease_id="job") is None
    assert [(m.payload, m.history[-1].kind) for m in queue.admin.dead_letters()] == [("a", "expired")]


def test_an_expired_lease_is_reclaimed_by_the_next_claim(world: World) -> None:
    queue = jobs(world)
    queue.publish_many(["a", "b"])
    lost = queue.claim(max_messages=2)
    expire(world, lost.id)
    again = queue.claim(max_messages=2, wait=1)
    assert [(m.payload, m.deliveries, m.history[-1].kind) for m in again.messages] == [
        ("a", 2, "expired"), ("b", 2, "expired")
    ]  # fmt: skip
    with pytest.raises(LeaseLost):
        queue.ack(lost)


def test_parts_of_a_lease_are_settled_separately(world: World) -> None:
    queue = jobs(world)
    queue.publish_many(["a", "b", "c", "d"])
    lease = queue.claim(max_messages=4)
    a, b, c, _ = lease.messages
    assert queue.ack(lease, [a]).outcomes == (Outcome.SETTLED,)
    assert queue.nack(lease, [b, a], reason="no").outcomes == (Outcome.SETTLED, Outcome.SETTLED_BEFORE)
    assert queue.release(lease, [c]).settled == 1
    assert [m.payload for m in queue.messages(lease)] == ["d"]
    assert queue.ack(lease).settled == 1
    assert payloads(queue) == ["b", "c"]


def test_a_lease_that_ends_before_its_last_chunk_counts_as_settled_and_not_as_lost(world: World) -> None:
    queue = jobs(world)
    queue.publish_many("x" for _ in range(1500))
    lease = queue.claim(max_messages=1500)
    messages = list(queue.messages(lease))
    queue.ack(lease, messages[500:])
    outcomes = (Outcome.SETTLED,) * 500 + (Outcome.SETTLED_BEFORE,) * 1000
    assert queue.ack(lease, messages) == SettleReport(500, 0, outcomes)
    assert (lease.lost, lease.state.lost, lease.state.settled) == (False, False, True)


def test_a_nack_counts_an_attempt_and_the_last_one_dead_letters(world: World) -> None:
    queue = jobs(world, max_attempts=2)
    queue.publish("a")
    assert queue.nack(queue.claim(), reason="first").dead == 0
    assert queue.nack(queue.claim(), reason="second").dead == 1
    (dead,) = queue.admin.dead_letters()
    assert [failure.reason for failure in dead.history] == ["first", "second"]


def test_a_nack_respects_the_attempts_set_on_the_job(world: World) -> None:
    queue = jobs(world, max_attempts=9)
    queue.add("j", '"rmq-attempts":"5"', attempts=1)
    queue.add("k", '"rmq-attempts":"1"')
    assert queue.nack(queue.claim(max_messages=2)).dead == 1
    assert [job.name for job in queue.peek_dlq()] == ["j"]


def test_a_large_lease_is_read_in_slices_and_settled_as_a_whole(world: World) -> None:
    queue, count = jobs(world), 9000
    queue.publish_many([str(number) for number in range(count)])
    lease = queue.claim(max_messages=count, lease_id="big")
    assert (lease.count, lease.complete) == (count, False)
    assert [m.payload for m in queue.messages(lease)] == [str(number) for number in range(count)]
    assert queue.release(lease).settled == count
    assert queue.stats()[:4] == (count, 0, 0, 0)


def test_large_payloads_come_in_chunks_and_all_of_them_come(world: World) -> None:
    queue = jobs(world)
    queue.publish_many(["x" * 1_000_000 for _ in range(20)])
    lease = queue.claim(max_messages=20)
    assert lease.count == 20
    assert sum(len(m.raw) for m in queue.messages(lease)) == 20_000_000
    assert queue.nack(lease).settled == 20
