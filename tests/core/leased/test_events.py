"""The events that `on_event` receives: one for each step, after the commit that it reports, in order."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import LeaseAlreadySettled, LeasedConfig, LeaseLost, LeaseOwnedByOther, Overflow, QueueFull
from rmq_core.events import QueueEvent
from tests.core.leases import expire
from tests.core.worlds import World

Told = tuple[str, int, str | None, str | None, str | None]


class Listener:
    def __init__(self) -> None:
        self.events: list[QueueEvent] = []

    def __call__(self, event: QueueEvent) -> None:
        self.events.append(event)

    def told(self) -> list[Told]:
        """Return the events since the last call."""
        events, self.events = self.events, []
        assert {event.queue for event in events} <= {"q"}
        return [(e.operation.value, e.count, e.lease_id, e.message_id, e.reason) for e in events]


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_publishing_emits_accepted_duplicate_and_dropped_messages(world: World, listener: Listener) -> None:
    queue = world.queue(config=LeasedConfig(max_ready=3), on_event=listener)
    first = queue.publish("a", dedup_key="k")
    assert listener.told() == [("publish", 1, None, first.id, None)]
    queue.publish("a", dedup_key="k")
    assert listener.told() == [("duplicate", 1, None, None, None)]
    queue.publish_many(["a", "b", "b"], dedup_key=lambda payload: payload)
    assert listener.told() == [("publish", 2, None, None, None), ("duplicate", 1, None, None, None)]
    with pytest.raises(QueueFull):
        queue.publish("d")
    assert listener.told() == []
    dropping = world.queue(config=LeasedConfig(max_ready=3, overflow=Overflow.DROP_OLDEST), on_event=listener)
    last = dropping.publish("e")
    assert listener.told() == [("publish", 1, None, last.id, None), ("drop", 1, None, None, None)]


def test_each_step_of_a_lease_emits_an_event(world: World, listener: Listener) -> None:
    queue = world.queue(on_event=listener)
    queue.publish_many([*"abcd"])
    listener.told()
    stale = queue.claim(max_messages=3, lease_id="job")
    lease = queue.claim(lease_id="job")
    assert listener.told() == [("claim", 3, "job", None, None), ("takeover", 3, "job", None, None)]
    with pytest.raises(LeaseLost):
        queue.extend(stale)
    assert listener.told() == [("lost", 3, "job", None, None)]
    a, b, _ = lease.messages
    queue.ack(lease, [a])
    queue.nack(lease, [b], reason="why")
    queue.extend(lease)
    assert listener.told() == [("ack", 1, "job", None, None), ("nack", 1, "job", None, "why")]
    queue.release(lease)
    assert listener.told() == [("release", 1, "job", None, None)]


def test_a_dead_letter_event_contains_id_and_reason(world: World, listener: Listener) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1), on_event=listener)
    one, two, three = queue.publish_many([*"abc"]).ids
    queue.claim(lease_id="nacked", max_messages=2)
    lease = queue.adopt("nacked")
    listener.told()
    queue.nack(lease, reason="broken")
    nacked, *dead = listener.told()
    assert nacked == ("nack", 2, "nacked", None, "broken")
    assert sorted(dead) == [("dead", 1, "nacked", one, "broken"), ("dead", 1, "nacked", two, "broken")]
    queue.claim(lease_id="expired")
    listener.told()
    expire(world, "expired")
    queue.backlog()
    assert listener.told() == [("reclaim", 1, "expired", None, None), ("dead", 1, "expired", three, "expired")]
    queue.admin.redrive()
    assert listener.told() == [("redrive", 3, None, None, None)]


def test_the_client_that_reclaims_emits_the_event(world: World, listener: Listener) -> None:
    holder, rival = world.queue(on_event=listener), world.queue(on_event=listener)
    holder.publish("x")
    stale = holder.claim(lease_id="job")
    listener.told()
    expire(world, "job")
    again = rival.claim()
    assert listener.told() == [("reclaim", 1, "job", None, None), ("claim", 1, again.id, None, None)]
    with pytest.raises(LeaseLost):
        holder.ack(stale)
    assert listener.told() == [("lost", 1, "job", None, None)]


def test_refusals_and_inspections_emit_no_events(world: World, listener: Listener) -> None:
    queue = world.queue(on_event=listener)
    queue.publish("x")
    queue.ack(queue.claim(lease_id="job", owner="me"))
    queue.publish("y")
    queue.claim(lease_id="other", owner="me")
    listener.told()
    with pytest.raises(LeaseAlreadySettled):
        queue.claim(lease_id="job")
    with pytest.raises(LeaseOwnedByOther):
        queue.adopt("other", if_owner="you")
    reads: list[Any] = [
        queue.stats(),
        queue.backlog(),
        queue.admin.leases(),
        queue.admin.peek(),
        queue.claim(),
        queue.admin.redrive(),
    ]
    assert len(reads) == 6
    assert listener.told() == []


def test_events_come_after_the_commit_they_report(world: World) -> None:
    seen: list[tuple[str, int]] = []

    def read(event: QueueEvent) -> None:
        counts = world.client.llen("rmq:{q}:ready"), world.client.zcard("rmq:{q}:leases")
        seen.append((event.operation.value, *counts))

    queue = world.queue(on_event=read)
    queue.publish("x")
    queue.ack(queue.claim())
    assert seen == [("publish", 1, 0), ("claim", 0, 1), ("ack", 0, 0)]


def test_events_contain_no_payloads_and_no_tokens(world: World, listener: Listener) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1), on_event=listener)
    queue.publish("canary payload")
    lease = queue.claim()
    queue.nack(lease, reason="r")
    shown = repr(listener.events)
    assert "canary" not in shown
    assert lease.token not in shown
