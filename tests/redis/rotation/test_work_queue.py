"""The WorkQueue protocol on a rotation queue, and what the queue refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rmq_core import ConfigurationError, Lease, LeaseLost, PayloadError, Unsupported, WorkQueue
from rmq_core.protocol import AsyncWorkQueue
from rmq_core.reports import Outcome
from tests.redis.leases import snapshot
from tests.redis.rotation.bench import KEYS, age, entries, ids, now_s, put, rotation
from tests.redis.worlds import World

HELD = Lease("q", "~", "", 1, 1, "1417696237", envelopes=[b"0 0 0 a s0 a"])
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a delay": (lambda queue: queue.publish("x", delay=1), "delay"),
    "deduplication": (lambda queue: queue.publish("x", dedup_key="k"), "dedup"),
    "headers": (lambda queue: queue.publish("x", headers={"a": "b"}), "headers"),
    "headers of many": (lambda queue: queue.publish_many(["x"], headers={"a": "b"}), "headers"),
    "a large lease": (lambda queue: queue.claim(max_messages=4001), "leases of more than 4000 messages"),
    "a named lease": (lambda queue: queue.claim(lease_id="job"), "lease_id"),
    "a lease time": (lambda queue: queue.claim(lease=5), "lease time"),
    "an extension": (lambda queue: queue.extend(HELD), "extend"),
    "a heartbeat": (lambda queue: queue.hold(HELD), "heartbeats"),
    "a delayed nack": (lambda queue: queue.nack(HELD, delay=1), "delay"),
    "dead letters": (lambda queue: queue.admin.dead_letters(), "dead_letters"),
    "a redrive": (lambda queue: queue.admin.redrive(), "dead_letters"),
    "purging the dead": (lambda queue: queue.admin.purge("dead"), "dead_letters"),
    "purging the delayed": (lambda queue: queue.admin.purge("delayed"), "delay"),
}


def test_it_implements_the_work_queue_protocol(world: World) -> None:
    queue = rotation(world)
    assert isinstance(getattr(queue, "inner", queue), WorkQueue if world.flavour == "sync" else AsyncWorkQueue)
    assert (queue.name, queue.discipline) == ("q", "rotation")


@pytest.mark.parametrize("what", list(REFUSED))
def test_an_unsupported_option_is_refused_before_anything_is_sent(world: World, what: str) -> None:
    call, named = REFUSED[what]
    queue = rotation(world)
    with pytest.raises(Unsupported, match=rf"'rotation' has no {named}.*leased"):
        call(queue)
    assert world.client.dbsize() == 0


def test_publish_is_a_push(world: World) -> None:
    queue = rotation(world)
    assert queue.publish("a") == ("a", True)
    assert queue.publish_many(iter(["b", "c|5"])) == (2, 0, 0, ("b", "c|5"))
    assert entries(world) == [b"a", b"b", b"c|5"]


def test_the_report_of_a_refused_publish_states_what_was_accepted(world: World) -> None:
    queue = rotation(world)
    with pytest.raises(PayloadError) as caught:
        queue.publish_many([*map(str, range(1000)), "one more", ""])
    assert caught.value.report.accepted == 1000


@pytest.mark.parametrize("payload", [b"a", {"a": 1}, ["a"], None])
def test_a_payload_that_is_no_text_is_refused(world: World, payload: Any) -> None:
    for call in (rotation(world).publish, lambda one: rotation(world).publish_many([one])):
        with pytest.raises(PayloadError, match="payload must be a str, which is the id, not"):
            call(payload)
    assert entries(world) == []


def test_an_ack_marks_the_ids_of_a_lease_as_done(world: World) -> None:
    queue = rotation(world)
    queue.publish_many(["a", "b", "c"])
    lease = queue.claim(max_messages=3, owner="me")
    assert (lease.owner, lease.count, ids(queue.messages(lease))) == ("me", 3, ["a", "b", "c"])
    a, b, _ = lease.messages
    assert queue.ack(lease, [b]).outcomes == (Outcome.SETTLED,)
    assert ids(queue.messages(lease)) == ["a", "c"]
    assert queue.ack(lease, [b, a]).outcomes == (Outcome.SETTLED_BEFORE, Outcome.SETTLED)
    assert queue.ack(lease).settled == 1
    assert (queue.claim(), entries(world)) == (None, [])


def test_an_ack_of_ids_that_another_consumer_finished_reports_them(world: World) -> None:
    queue = rotation(world)
    queue.publish_many(["a", "b"])
    lease = queue.claim(max_messages=2)
    queue.mark_done("a")
    assert queue.ack(lease, lease.messages).outcomes == (Outcome.LOST, Outcome.SETTLED)
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    assert lease.lost


def test_a_late_ack_counts_because_the_work_is_done(world: World) -> None:
    queue = rotation(world)
    queue.publish("a")
    late = queue.claim()
    age(world)
    again = queue.claim()
    assert queue.ack(late).settled == 1
    assert (queue.safe_pop(), entries(world)) == (None, [])
    with pytest.raises(LeaseLost):
        queue.ack(again)


def test_the_deadline_of_a_lease_is_when_its_ids_are_late(world: World) -> None:
    queue = rotation(world, timeout=30)
    queue.publish("a")
    lease = queue.claim()
    assert lease.deadline_ms == (int(lease.token) + 31) * 1000


@pytest.mark.parametrize("verb", ["release", "nack"])
def test_released_ids_are_new_and_first_again(world: World, verb: str) -> None:
    queue = rotation(world)
    queue.publish_many(["a|0", "b", "c"])
    lease = queue.claim(max_messages=2)
    assert getattr(queue, verb)(lease).settled == 2
    assert entries(world) == [b"a|0|0", b"b", b"c"]
    assert world.client.exists(KEYS.taken) == 0
    assert [queue.safe_pop() for _ in range(4)] == ["a|0", "b", "c", None]


def test_ids_that_another_consumer_popped_in_the_meantime_cannot_be_released(world: World) -> None:
    queue = rotation(world)
    queue.publish_many(["a", "b"])
    claimed = queue.claim(max_messages=2)
    age(world)
    late = replace(claimed, token=str(int(claimed.token) - 3600))
    queue.safe_pop()
    before = snapshot(world.client)
    with pytest.raises(LeaseLost):
        queue.release(late)
    assert snapshot(world.client) == before
    assert queue.release(late, late.messages).outcomes == (Outcome.LOST, Outcome.SETTLED)


def test_a_done_id_cannot_be_released(world: World) -> None:
    queue = rotation(world)
    queue.publish("a")
    lease = queue.claim()
    queue.mark_done("a")
    with pytest.raises(LeaseLost):
        queue.nack(lease)
    assert queue.safe_pop() is None


def test_the_reason_of_a_nack_goes_to_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    queue = rotation(world)
    queue.publish("a")
    with caplog.at_level(logging.WARNING, "rmq"):
        queue.nack(queue.claim(), reason="no\ngood")
    assert caplog.messages == ["1 ids of queue 'q' were nacked: no good"]


def test_a_block_acks_when_it_succeeds_and_releases_when_it_raises(world: World) -> None:
    queue = rotation(world)
    queue.publish_many(["a", "b"])
    with queue.process() as batch:
        assert batch.payloads == ["a"]
    with pytest.raises(ZeroDivisionError), queue.process():
        _ = 1 / 0
    assert (queue.safe_pop(), queue.safe_pop()) == ("b", None)


def test_stats_and_backlog_count_new_late_and_in_progress_ids(world: World) -> None:
    queue = rotation(world)
    now = now_s(world)
    put(world, "new", f"late|{now - 3600}", f"going|{now}", f"done|{now}")
    queue.mark_done("done")
    assert queue.backlog()[:2] == (2, None)
    found = queue.stats()
    assert (found.ready, found.delayed, found.leased, found.dead, found.oldest_age) == (2, 0, 1, 0, None)


def test_peeking_shows_what_a_pop_would_return_and_changes_nothing(world: World) -> None:
    queue = rotation(world)
    now = now_s(world)
    put(world, f"going|{now}", "new", f"late|{now - 3600}", "newer")
    before = snapshot(world.client)
    assert ids(queue.admin.peek(2)) == ["new", "late"]
    assert ids(queue.admin.peek(9)) == ["new", "late", "newer"]
    assert snapshot(world.client) == before


def test_peeking_finds_ids_behind_thousands_in_progress(world: World) -> None:
    queue = rotation(world)
    put(world, *[f"{number}|{now_s(world)}" for number in range(6000)], "new")
    assert ids(queue.admin.peek()) == ["new"]
    assert queue.stats()[:3] == (1, 0, 6000)


def test_purging_spares_ids_in_progress(world: World) -> None:
    queue = rotation(world)
    now = now_s(world)
    going = [f"{number}|{now}" for number in range(1200)]
    put(world, *going, "new", f"late|{now - 3600}", f"done|{now}")
    queue.mark_done("done")
    assert queue.admin.purge("ready") == 2
    assert entries(world) == [entry.encode() for entry in going]
    assert (world.client.exists(KEYS.done), world.client.hexists(KEYS.taken, "late")) == (0, False)


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda queue: queue.claim(max_messages=0), "max_messages"),
        (lambda queue: queue.safe_pop(wait=-1), "wait"),
        (lambda queue: queue.admin.purge("everything"), "target"),
        (lambda queue: queue.admin.peek(0), "count"),
        (lambda queue: queue.ack(Lease.from_json(HELD.to_json())), "adopt"),
    ],
)
def test_an_invalid_value_is_refused_by_parameter(world: World, call: Callable[[Any], Any], parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        call(rotation(world))
