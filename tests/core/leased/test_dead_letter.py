"""`admin.dead_letter`: an operator moves one message to the dead letters, wherever it is, and nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

import pytest

from rmq_core import LeasedConfig, LeaseLost, NewMessage
from rmq_core.exchange import Call
from rmq_core.leased import managing
from rmq_core.observe.history import acting_as
from rmq_core.policy import Breaker
from rmq_core.reports import Outcome
from tests.core.leases import drain, engine_of, payloads, run
from tests.core.worlds import World

LAYOUTS: dict[str, dict[str, Any]] = {"list": {}, "groups": {"groups": "exclusive"}, "shards": {"shards": 3}}
NAME = "report"


def laid(world: World, layout: str, **config: Any) -> Any:
    queue = world.queue(config=LeasedConfig(**config))
    if LAYOUTS[layout]:
        queue.admin.configure(**LAYOUTS[layout])
    return queue


def letters(queue: Any) -> list[tuple[Any, int, list[tuple[str, str, str]]]]:
    return [
        (each.payload, each.deliveries, [(line.kind, line.owner, line.reason) for line in each.history])
        for each in queue.admin.dead_letters(100)
    ]


def stepping(world: World, queue: Any, before: Callable[[str], Any], message_id: str) -> Any:
    """Run the operation request by request; `before` gets the name of each script before it is sent."""
    operation: Generator[Any, Any, Any] = managing.dead_letter(engine_of(queue), message_id)
    reply = None
    while True:
        try:
            want = operation.send(reply)
        except StopIteration as end:
            return end.value
        before(want.script.name if isinstance(want, Call) else "")
        reply = run(world, queue, want)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_message_that_waits_is_moved_from_every_state(world: World, layout: str) -> None:
    queue = laid(world, layout)
    ids = list(queue.publish_many([*"abcd"]).ids)
    ids.append(queue.publish("later", delay=3600).id)
    with acting_as("alice"):
        assert queue.admin.dead_letter(ids[1], reason="kills\tits workers")
        assert queue.admin.dead_letter(ids[4])
        assert [queue.admin.dead_letter(each) for each in (ids[1], "unknown")] == [False, False]
    found = sorted(letters(queue))
    assert found == [("b", 0, [("moved", "alice", "kills its workers")]), ("later", 0, [("moved", "alice", "")])]
    assert queue.stats()[:5] == (3, 0, 0, 0, 2)
    assert {each.reason for each in queue.admin.dead_reasons()} == {"kills its workers", "moved"}
    assert queue.admin.redrive() == 2
    assert sorted(drain(queue)) == ["a", "b", "c", "d", "later"]


@pytest.mark.parametrize("layout", ["list", "groups"])
def test_an_isolated_message_is_moved_and_the_others_stay_apart(world: World, layout: str) -> None:
    queue = laid(world, layout)
    ids = queue.publish_many([*"abcd"]).ids
    for _ in range(2):
        queue.nack(queue.claim(max_messages=4))
    assert queue.stats().isolated == 4
    assert queue.admin.dead_letter(ids[2], reason="poison")
    assert (queue.stats().isolated, queue.stats().dead) == (3, 1)
    (letter,) = queue.admin.dead_letters()
    assert (letter.deliveries, [line.kind for line in letter.history]) == (2, ["nack", "nack", "moved"])
    assert sorted(drain(queue)) == ["a", "b", "d"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_killer_of_a_batch_is_taken_from_its_lease_and_its_holder_keeps_the_others(
    world: World, layout: str
) -> None:
    queue = laid(world, layout)
    ids = {payload: queue.publish(payload).id for payload in "abc"}
    lease = queue.claim(max_messages=3, owner="worker", lease_id="job")
    taken = lease.messages[-1]
    with acting_as("alice"):
        assert queue.admin.dead_letter(ids[taken.payload], reason="kills")
    assert letters(queue) == [(taken.payload, 1, [("moved", "alice", "kills")])]
    assert (queue.stats().leases, queue.stats().dead) == (1, 1)
    assert not queue.admin.dead_letter("unknown")
    assert queue.nack(lease, messages=[taken]).outcomes == (Outcome.SETTLED_BEFORE,)
    assert queue.ack(lease).settled == lease.count - 1
    assert queue.stats()[:5] == (3 - lease.count, 0, 0, 0, 1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_lease_of_the_killer_alone_ends_so_that_its_group_goes_on(world: World, layout: str) -> None:
    queue = laid(world, layout)
    group = {"group": "a"} if layout == "groups" else {}
    first = queue.publish("killer", **group).id
    lease = queue.claim(owner="worker", lease=3600)
    queue.publish("next", **group)
    assert queue.admin.dead_letter(first)
    assert queue.stats().leases == 0
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    assert drain(queue) == ["next"]
    assert payloads(queue.admin.dead_letters()) == ["killer"]


def test_all_messages_of_a_lease_in_parts_are_moved_and_its_holder_can_end_it(world: World) -> None:
    queue = laid(world, "shards")
    queue.publish_many(map(str, range(6_000)))
    lease = queue.claim(max_messages=5_000, lease_id="job")
    assert len(lease.parts) > 1
    part = lease.parts[-1][1]
    some = queue.read(lease, lease.count - part.count)[:2]
    assert [queue.admin.dead_letter(each.id) for each in some] == [True, True]
    assert queue.ack(lease).settled == lease.count - 2
    assert (queue.stats().leases, queue.stats().dead) == (0, 2)


@pytest.mark.parametrize("where", ["ready", "delayed", "leased", "leased alone"])
def test_a_publication_counts_it_as_dead_and_ends(world: World, where: str) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", dedup_until="settled")
    delay = 3600 if where == "delayed" else None
    chosen = queue.publish("x", publication=NAME, dedup_key="k", delay=delay).id
    if where == "leased":
        queue.publish_many([NewMessage("y", publication=NAME)])
    lease = queue.claim(max_messages=2) if "leased" in where else None
    assert queue.admin.dead_letter(chosen)
    if where == "leased":
        assert not queue.publication(NAME).done
        queue.ack(lease)
    found = queue.publication(NAME)
    assert (found.done, found.dead, found.removed, found.waiting, found.leased) == (True, 1, 0, 0, 0)
    assert queue.publish("again", dedup_key="k").accepted  # as of any dead letter


def test_the_oldest_dead_letters_are_trimmed_and_the_breaker_does_not_trip(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_dead=3, pause_after_dead=Breaker(2, 600)))
    ids = queue.publish_many([*"abcdef"]).ids
    queue.claim(max_messages=2, lease_id="job")
    assert all(queue.admin.dead_letter(each) for each in ids)  # the leased ones first
    assert payloads(queue.admin.dead_letters()) == [*"fed"]
    assert not queue.stats().paused


def test_what_moved_it_is_explained_with_and_without_a_journal(world: World) -> None:
    queue = world.queue(config=LeasedConfig(journal=100))
    held, ready = queue.publish_many([*"ab"]).ids
    queue.claim(owner="worker")
    with acting_as("alice"):
        assert queue.admin.dead_letter(held, reason="kills")
        assert queue.admin.dead_letter(ready, reason="kills")
    for each, told in ((ready, queue), (held, queue), (held, world.queue())):
        timeline = told.admin.why(each)
        moves = [(step.who, step.detail) for step in timeline.steps if step.what == "dead-lettered"]
        assert (timeline.state, moves) == ("dead", [("alice", "kills")])
    (mark,) = [mark for mark in queue.admin.marks() if mark.kind == "dead-letter"]
    assert mark.by == "alice"
    queue.close()
    assert world.queue().admin.totals().dead == 2


def test_without_a_journal_it_is_said_once_who_moved_it(world: World) -> None:
    queue = world.queue()
    one = queue.publish("x").id
    with acting_as("alice"):
        assert queue.admin.dead_letter(one, reason="kills")
    queue.close()
    steps = world.queue().admin.why(one).steps
    assert [(step.what, step.who) for step in steps if step.what == "dead-lettered"] == [("dead-lettered", "alice")]


def test_it_is_found_although_it_is_claimed_or_taken_over_between_two_steps(world: World) -> None:
    queue, other = world.queue(), world.queue()
    one = queue.publish("x").id

    def claimed(name: str) -> None:
        if name == "leased/dead_letter":
            other.claim(lease_id="job", owner="first")
        elif name == "leased/settle_some" and queue.admin.leases()[0].owner == "first":
            other.claim(lease_id="job", owner="second")  # the token of the first one is worth nothing

    assert stepping(world, queue, claimed, one)
    assert payloads(queue.admin.dead_letters()) == ["x"]
    assert queue.stats()[:5] == (0, 0, 0, 0, 1)


def test_another_message_in_its_place_is_never_moved(world: World) -> None:
    queue, other = world.queue(), world.queue()
    one = queue.publish("x").id
    lease = other.claim(lease_id="job")

    def replaced(name: str) -> None:
        if name == "leased/settle_some":
            other.release(lease)
            other.ack(other.claim())
            queue.publish("innocent")
            other.claim(lease_id="job")

    assert not stepping(world, queue, replaced, one)
    assert queue.stats()[:5] == (0, 0, 1, 1, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whatever_else_happens_each_message_is_in_one_place(world: World, layout: str) -> None:
    queue, chance = laid(world, layout, max_deliveries=5), random.Random(layout)
    group = (lambda n: f"g{n % 3}") if layout == "groups" else lambda _: None
    ids = [queue.publish(n, group=group(n), delay=3600 if n % 5 == 0 else None).id for n in range(30)]
    moved, acked, leases = set[str](), set[str](), []
    for _ in range(60):
        step = chance.choice(["move", "claim", "ack", "nack", "due", "some"])
        if step == "move" and queue.admin.dead_letter(one := chance.choice(ids)):
            assert one not in moved | acked
            moved.add(one)
        elif step == "claim" and (lease := queue.claim(max_messages=3)):
            leases.append(lease)
        elif step == "due":
            queue.admin.run_now(chance.choice(ids))
        elif leases and step in {"ack", "nack", "some"}:
            lease = leases.pop(chance.randrange(len(leases)))
            left = [each for each in lease.messages if each.id not in moved]
            if not left:
                continue
            if step == "some":
                queue.ack(lease, messages=left[:1])
                acked.add(left[0].id)
                left = left[1:]
            if left:
                (queue.nack if step == "nack" else queue.ack)(lease)
                acked |= {each.id for each in left} if step != "nack" else set()
        stats = queue.stats()
        assert stats.dead == len(moved)
        assert stats.ready + stats.delayed + stats.leased == 30 - len(moved) - len(acked)
