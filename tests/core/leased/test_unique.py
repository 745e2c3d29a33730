"""Deduplication keys that are taken until their message is settled, whatever happens to it on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig, Match, NewMessage
from rmq_core.errors import ConfigurationError, QueueFull
from rmq_core.events import Operation, QueueEvent
from tests.core.leased.groups import POLICIES, Groups
from tests.core.leases import drain, engine_of, eventually, fall_due, key, lose_answer, payloads
from tests.core.worlds import World


def unique(world: World, policy: str = "fair", **config: Any) -> Any:
    queue = world.queue(config=LeasedConfig(**config))
    queue.admin.configure(groups=policy, dedup_until="settled")
    return queue


ENDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "ack": lambda queue, lease: queue.ack(lease),
    "ack one": lambda queue, lease: queue.ack(lease, messages=lease.messages),
    "claim_next": lambda queue, lease: queue.claim_next(ack=lease),
    "nack": lambda queue, lease: queue.nack(lease),
    "expiry": lambda queue, lease: queue.admin.expire_lease(lease.id),
    "takeover and ack": lambda queue, lease: queue.ack(queue.adopt(lease.id)),
    "release and cancel": lambda queue, lease: (queue.release(lease), queue.admin.cancel(lease.message.id)),
    "release and purge": lambda queue, lease: (queue.release(lease), queue.admin.purge("ready")),
    "release and purge some": lambda queue, lease: (
        queue.release(lease), queue.admin.purge("ready", where=Match(text="x")),
    ),
    "later and purge": lambda queue, lease: (queue.nack(lease, delay=60), queue.admin.purge("delayed")),
    "later and cancel": lambda queue, lease: (queue.nack(lease, delay=60), queue.admin.cancel(lease.message.id)),
    "forget": lambda queue, lease: queue.admin.forget("k"),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
@pytest.mark.parametrize("how", ENDINGS)
def test_a_key_is_taken_until_its_message_is_done(world: World, how: str, policy: str) -> None:
    policy = "concurrent 2" if "later" in how else policy  # in an exclusive group, the group waits, not the message
    queue = unique(world, policy, max_deliveries=3 if "later" in how else 1)
    other = world.queue()
    assert queue.publish("x", dedup_key="k", group="a").accepted
    assert not other.publish("x", dedup_key="k").accepted
    assert queue.admin.remembered("k") == float("inf")
    lease = queue.claim()
    assert not other.publish_many(["x"], dedup_key=lambda _: "k").accepted
    queue.release(lease)
    assert not other.publish("x", dedup_key="k").accepted
    if "later" in how:
        queue.nack(queue.claim(), delay=60)
        assert not other.publish("x", dedup_key="k").accepted
        fall_due(world)
    ENDINGS[how](queue, queue.claim())
    assert queue.admin.remembered("k") is None
    assert other.publish("x", dedup_key="k").accepted


def test_keys_of_acked_leases_are_dropped_with_time(world: World) -> None:
    queue = unique(world, dedup=True)
    for _ in range(20):
        assert queue.publish_many(map(str, range(50))).accepted == 50
        drain(queue)
    for number in range(50):
        queue.publish(f"other {number}")
    assert world.client.hlen(key("unique")) < 90


def test_staged_messages_are_compared_when_they_are_published(world: World) -> None:
    queue = unique(world, dedup=True)
    stages = [queue.stage([*"abca", NewMessage("d", delay=60), NewMessage("d", delay=60)]), queue.stage([*"bceff"])]
    assert queue.publish("a").accepted
    queue.publish_staged(stages)
    fall_due(world)
    assert sorted(drain(queue)) == ["a", "b", "c", "d", "e", "f"]


def test_a_purge_of_what_is_ready_frees_no_key_of_a_delayed_message(world: World) -> None:
    queue = unique(world)
    queue.publish("a", dedup_key="a")
    queue.publish("b", dedup_key="b", delay=60)
    assert queue.admin.purge("ready") == 1
    assert queue.publish("a", dedup_key="a").accepted
    assert not queue.publish("b", dedup_key="b").accepted


def test_keys_survive_a_change_of_the_groups(world: World) -> None:
    queue = unique(world, dedup=True)
    queue.publish_many(["a", "b"])
    lease = queue.claim()
    queue.admin.configure(groups="exclusive")
    assert queue.publish_many(["a", "b", "c"]).accepted == 1
    queue.ack(lease)
    assert queue.publish_many(["a", "b", "c"]).accepted == 1
    queue.admin.configure(reset=["groups", "dedup_until"])
    assert not world.client.exists(key("unique"))
    queue.admin.configure(groups="fair", dedup_until="settled")
    assert queue.publish_many(["a", "b", "c"]).accepted == 0
    assert len(drain(queue)) == 3


def replacing(world: World, policy: str = "fair", **config: Any) -> Any:
    queue = unique(world, policy, **config)
    queue.admin.configure(on_duplicate="replace")
    return queue


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
def test_a_waiting_message_is_replaced_in_its_place(world: World, policy: str) -> None:
    queue, other = replacing(world, policy, max_ready=3), world.queue()
    first = queue.publish("old", dedup_key="k", group="a", headers={"x": "old"})
    queue.publish_many(["b", "c"], group="a")
    second = other.publish({"new": 1}, dedup_key="k", group="a", headers={"y": "new"})  # also where no more may wait
    assert first == (first.id, True, False)
    assert second == (second.id, True, True) != first
    with pytest.raises(QueueFull):
        queue.publish_many([NewMessage("newer", dedup_key="k"), NewMessage("d", dedup_key="d")], group="a")
    assert queue.stats().ready == 3
    lease = queue.claim(max_messages=9)
    message = lease.messages[0]
    assert payloads(lease.messages) == [{"new": 1}, "b", "c"]
    assert (message.id, message.headers["y"], message.headers.get("x")) == (second.id, "new", None)
    queue.nack(lease)
    assert not other.publish("for another group", dedup_key="k", group="b").accepted
    third = other.publish("newest", dedup_key="k", group="a")
    assert third.replaced
    message = queue.claim().message
    assert (message.payload, message.deliveries, message.history) == ("newest", 1, ())
    assert not other.publish("x", dedup_key="k", group="a").accepted


def nack_later(queue: Any) -> None:
    queue.nack(queue.claim(), delay=60)


def isolate(queue: Any) -> None:
    queue.publish("x", group="a")
    for _ in range(2):
        queue.nack(queue.claim(max_messages=2))


KEEPING: dict[str, Callable[[Any], Any]] = {
    "leased": lambda queue: queue.claim(),
    "taken over": lambda queue: queue.adopt(queue.claim().id),
    "nacked with a delay": nack_later,
    "isolated": isolate,
    "of another group": lambda queue: queue.publish("new", dedup_key="k", group="b"),
    "of no group": lambda queue: queue.publish("new", dedup_key="k"),
    "of another priority": lambda queue: queue.publish("new", dedup_key="k", group="a", priority=1),
    "in a call that delays": lambda queue: queue.publish("new", dedup_key="k", group="a", delay=60),
}


@pytest.mark.parametrize("policy", ["fair", "concurrent 2"])
@pytest.mark.parametrize("how", KEEPING)
def test_a_message_that_does_not_wait_in_that_place_is_not_replaced(world: World, how: str, policy: str) -> None:
    queue = replacing(world, policy)
    before = queue.publish("old", dedup_key="k", group="a")
    done = KEEPING[how](queue)
    if how == "of another priority" and policy != "fair":  # which counts for nothing there
        assert done.replaced
        return
    report = done if how.startswith(("of", "in")) else queue.publish("new", dedup_key="k", group="a")
    assert (report.accepted, report.replaced) == (False, False)
    many = queue.publish_many([NewMessage("new", dedup_key="k", group="c")])
    assert many == (0, 1, 0, (None,), 0)
    place = queue.admin.why(before.id).state
    assert place == {"leased": "leased", "taken over": "leased", "nacked with a delay": "delayed"}.get(how, "ready")


COMES_BACK: dict[str, Callable[[Any, World], Any]] = {
    "release": lambda queue, _: queue.release(queue.claim()),
    "nack": lambda queue, _: queue.nack(queue.claim()),
    "nack some": lambda queue, _: queue.nack(lease := queue.claim(), messages=lease.messages),
    "expiry": lambda queue, _: queue.admin.expire_lease(queue.claim().id),
    "due": lambda queue, world: (nack_later(queue), fall_due(world), queue.backlog()),
    "run now": lambda queue, _: (nack_later(queue), queue.admin.run_now(queue.admin.browse("delayed").messages[0].id)),
    "redrive": lambda queue, _: (queue.nack(queue.claim()), queue.nack(queue.claim()), queue.admin.redrive()),
    "other groups": lambda queue, _: queue.admin.configure(groups="exclusive"),
    "no groups and back": lambda queue, _: (
        queue.admin.configure(reset=["groups", "dedup_until", "on_duplicate"]),
        queue.admin.configure(groups="exclusive", dedup_until="settled", on_duplicate="replace"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", COMES_BACK)
def test_a_message_that_comes_back_can_be_replaced(world: World, how: str) -> None:
    queue, other = replacing(world, max_deliveries=2), world.queue()
    queue.publish("old", dedup_key="k", group="a")
    COMES_BACK[how](queue, world)
    assert other.publish("new", dedup_key="k", group="a").replaced
    assert other.publish_many([NewMessage("newer", dedup_key="k", group="a")]).replaced == 1
    assert queue.stats()[:3] == (1, 0, 0)
    assert drain(queue) == ["newer"]


def test_many_messages_of_one_call_replace_each_other_as_if_they_came_one_by_one(world: World) -> None:
    queue, other = replacing(world), world.queue()
    new = [NewMessage(f"{number}", dedup_key=f"{number % 700}", group="a") for number in range(2_100)]
    report = other.publish_many(new)  # some of a key are in one chunk, and others are not
    assert report[:3] == (2_100, 0, 0)
    assert report.replaced == 1_400
    assert None not in report.ids
    assert drain(queue) == [f"{number}" for number in range(1_400, 2_100)]


def test_a_replaced_message_leaves_its_publication(world: World) -> None:
    queue = replacing(world)
    queue.publish("old", dedup_key="k", publication="one")
    assert queue.publish("new", dedup_key="k", publication="two").replaced
    one, two = queue.publication("one"), queue.publication("two")
    assert (one.messages, one.removed, one.acked, one.done) == (1, 1, 0, True)
    assert (two.messages, two.waiting, two.done) == (1, 1, False)
    queue.publish_many([NewMessage(text, dedup_key="k") for text in "abc"], publication="two")
    queue.ack(queue.claim())
    two = queue.publication("two", wait=5)
    assert (two.messages, two.removed, two.acked, two.done) == (4, 3, 1, True)


def test_a_replacing_message_expires_when_it_says_so_itself(world: World) -> None:
    queue = replacing(world)
    queue.publish("soon", dedup_key="k", expires=0.05)
    assert queue.publish("never", dedup_key="k").replaced
    assert not world.client.exists(key("expiring"))
    queue.publish_many([NewMessage("late", dedup_key="l", expires=0.01)])
    assert queue.publish("soon too", dedup_key="l", expires=0.05).replaced
    eventually(lambda: queue.backlog().ready == 1)
    assert [message.payload for message in queue.admin.dead_letters()] == ["soon too"]
    assert drain(queue) == ["never"]


def test_staged_messages_replace_what_waits_when_they_are_published(world: World) -> None:
    queue = replacing(world)
    queue.publish_many([NewMessage("old", dedup_key="k"), NewMessage("other", dedup_key="l")])
    plain = queue.stage([NewMessage("new", dedup_key="k"), "more", NewMessage("newer", dedup_key="k")])
    mixed = [NewMessage("later", dedup_key="m", delay=60), NewMessage("late", dedup_key="m")]
    mixed += [NewMessage("n", dedup_key="n"), NewMessage("new n", dedup_key="n")]
    queue.publish_staged([plain, queue.stage(mixed)])
    assert drain(queue) == ["newer", "other", "more", "new n"]
    fall_due(world)
    assert drain(queue) == ["later"]


def test_what_replaces_and_what_is_replaced_is_counted_and_told(world: World) -> None:
    events: list[QueueEvent] = []
    queue = world.queue(config=LeasedConfig(journal=100), on_event=events.append)
    queue.admin.configure(groups="fair", dedup_until="settled", on_duplicate="replace")
    old = queue.publish("old", dedup_key="k")
    new = queue.publish("new", dedup_key="k")
    queue.publish_staged([queue.stage([NewMessage("newer", dedup_key="k")])])
    queue.publish("x", dedup_key="other")
    told = [(event.operation, event.message_id) for event in events if event.operation == Operation.REPLACE]
    assert told == [(Operation.REPLACE, old.id), (Operation.REPLACE, new.id)]
    timeline = queue.admin.why(old.id)
    assert timeline.state == "gone"
    steps = [step for step in timeline.steps if not step.what.startswith("queue:")]  # of the same millisecond
    assert [(step.what, bool(step.who)) for step in steps] == [("published", True), ("replaced", True)]
    assert [(step.what, bool(step.who)) for step in queue.admin.why(new.id).steps][-1] == ("replaced", False)
    queue.close()
    totals = world.queue().admin.totals()
    assert (totals.published, totals.replaced, totals.duplicates) == (4, 2, 0)


@pytest.mark.parametrize("how", ["publish", "publish_many", "staged"])
def test_a_publish_whose_reply_was_lost_replaces_once(world: World, how: str) -> None:
    queue, other = replacing(world), world.queue()
    queue.publish("old", dedup_key="k", publication="one")
    queue.backlog()
    if how == "publish":
        lose_answer(queue, redis.ConnectionError("the reply got lost"))
        assert queue.publish("new", dedup_key="k", publication="one").replaced
    elif how == "publish_many":
        lose_answer(queue, redis.ConnectionError("the reply got lost"))
        report = queue.publish_many([NewMessage("new", dedup_key="k", publication="one")])
        assert (report.accepted, report.replaced) == (1, 1)
    else:
        stage = queue.stage([NewMessage("new", dedup_key="k", publication="one")])
        lose_answer(queue, redis.ConnectionError("the reply got lost"))
        queue.publish_staged([stage])
    found = other.publication("one")
    assert (found.messages, found.waiting, found.removed) == (2, 1, 1)
    assert drain(other) == ["new"]


def test_a_client_that_knows_an_older_setting_drops_and_then_follows(world: World) -> None:
    queue, other = world.queue(), world.queue()
    other.publish("plain")  # it has read the settings of a queue without groups
    queue.admin.configure(groups="fair", dedup_until="settled", on_duplicate="replace")
    queue.publish("old", dedup_key="k")
    other.publish("x")  # in groups, with the arguments of a script that has more of them
    engine_of(other).look_at = 0
    other.stats()
    assert other.publish("new", dedup_key="k").replaced
    queue.admin.configure(reset="on_duplicate")
    assert not queue.publish("newer", dedup_key="k").accepted


def test_replacing_needs_keys_that_are_taken_until_settled(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"on_duplicate 'replace' needs .*dedup_until='settled'"):
        LeasedConfig(on_duplicate="replace")
    queue = world.queue()
    queue.admin.configure(groups="fair")
    with pytest.raises(ConfigurationError, match="on_duplicate 'replace' needs"):
        queue.admin.configure(on_duplicate="replace")
    queue.admin.configure(dedup_until="settled", on_duplicate="replace")
    with pytest.raises(ConfigurationError, match="on_duplicate 'replace' needs"):
        queue.admin.configure(reset="dedup_until")
    with pytest.raises(ConfigurationError, match="on_duplicate must be 'drop' or 'replace', not 'keep'"):
        queue.admin.configure(on_duplicate="keep")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("expiring", [False, True])
def test_random_publishers_replace_what_waits_and_nothing_else(
    world: World, policy: str, expiring: bool, full_faults: bool
) -> None:
    replaced = 0
    for seed in range(40 if full_faults else 3):
        world.client.flushdb()
        groups = Groups(world, f"replace {policy} {seed}", policy, expiring=expiring, replacing=True)
        groups.run(250 if full_faults else 150)
        replaced += groups.replaced
    assert replaced


def test_what_waits_can_be_replaced_after_a_change_of_the_groups(world: World, full_faults: bool) -> None:
    for seed in range(40 if full_faults else 4):
        world.client.flushdb()
        groups = Groups(world, f"replace, changes {seed}", None, replacing=True, counted=seed % 2 == 1)
        for policy in groups.chance.sample([None, *POLICIES], 4):
            for _ in range(40):
                groups.chance.choice(
                    [groups.publish, *[groups.publish_unique] * 4, groups.claim, groups.ack, groups.some]
                )()
            groups.set_policy(policy)
            groups.audit()
        groups.finish()


def test_unique_keys_need_groups(world: World) -> None:
    with pytest.raises(ConfigurationError, match="dedup_until 'settled' needs groups"):
        LeasedConfig(dedup_until="settled")
    queue = unique(world)
    with pytest.raises(ConfigurationError, match="dedup_until 'settled' needs groups"):
        queue.admin.configure(reset="groups")
    with pytest.raises(ConfigurationError, match="dedup_until must be"):
        queue.admin.configure(dedup_until="acked")
