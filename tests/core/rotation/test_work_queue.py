"""The WorkQueue protocol on a rotation queue, and what the queue refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rmq_core import ConfigurationError, Lease, LeaseLost, PayloadError, Unsupported
from rmq_core.reports import Outcome
from tests.core.leases import snapshot
from tests.core.rotation.bench import KEYS, age, entries, ids, now_s, put, rotation
from tests.core.worlds import World

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
    "dead letters": (lambda queue: queue.admin.dead_letters(), "dead letters"),
    "a redrive": (lambda queue: queue.admin.redrive(), "dead letters"),
    "purging the dead": (lambda queue: queue.admin.purge("dead"), "dead_letters"),
    "purging the delayed": (lambda queue: queue.admin.purge("delayed"), "delay"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_an_unsupported_option_is_refused_before_anything_is_sent(world: World, what: str) -> None:
    call, named = REFUSED[what]
    queue = rotation(world)
    with pytest.raises(Unsupported, match=rf"'rotation' has no {named}.*leased"):
        call(queue)
    assert world.client.dbsize() == 0


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


def test_peeking_shows_what_a_pop_would_return_and_changes_nothing(world: World) -> None:
    queue = rotation(world)
    now = now_s(world)
    put(world, f"going|{now}", "new", f"late|{now - 3600}", "newer")
    before = snapshot(world.client)
    assert ids(queue.admin.peek(2)) == ["new", "late"]
    assert ids(queue.admin.peek(9)) == ["new", "late", "newer"]
    assert snapshot(world.client) == before


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
