"""Claims that take only from some groups: what they get, and that each of those that wait is woken for its own."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from rmq_core import Lease, LeasedConfig
from rmq_core.errors import ConfigurationError, QueueUnavailable
from rmq_core.leased.claiming import claim
from rmq_core.messages import NewMessage
from rmq_core.orchestrate.waiting import WaitHub
from tests.core.by_hand import drive
from tests.core.leased.by_hand import claimed, engine, given
from tests.core.leases import (
    PATIENCE_S,
    SOON_S,
    blocked,
    drain,
    eventually,
    expire,
    handler_of,
    key,
    lose_answer,
    payloads,
    woken_soon,
)
from tests.core.worlds import World

LONG_S = PATIENCE_S


def a_queue(world: World, groups: str = "fair", **settings: Any) -> Any:
    queue = world.queue(config=LeasedConfig(**settings))
    queue.admin.configure(groups=groups)
    return queue


def seeking(world: World, *groups: str, **terms: Any) -> Future[Lease | None]:
    """Let another consumer wait for messages of these groups."""
    return world.in_background(world.queue().claim, wait=LONG_S, groups=groups, **terms)


def test_two_consumers_of_different_groups_and_one_of_all_share_a_queue(world: World) -> None:
    queue = a_queue(world)
    for group in ("gold", "lead"):
        queue.publish_many([f"{group}{number}" for number in range(4)], group=group)
    queue.publish("none")
    gold, lead = queue.claim(max_messages=3, groups=["gold"]), queue.claim(groups=["lead", "absent"])
    assert payloads(gold.messages) == ["gold0", "gold1", "gold2"]
    assert gold.groups == ("gold",)
    assert payloads(lead.messages) == ["lead0"]
    assert payloads(queue.claim(groups=[""]).messages) == ["none"]
    assert queue.claim(groups=["", "absent"]) is None
    both = queue.claim(max_messages=9, groups=("lead", "gold"))
    assert sorted(payloads(both.messages)) == ["gold3", "lead1", "lead2", "lead3"]
    assert sorted(both.groups) == ["gold", "lead"]
    assert queue.stats()[:2] == (0, 0)


def test_a_block_and_a_run_work_on_the_messages_of_their_groups(world: World) -> None:
    queue = a_queue(world)
    for group in "ab":
        queue.publish_many([f"{group}{number}" for number in range(3)], group=group)
    with queue.process(max_messages=2, groups=["b"]) as batch:
        assert payloads(batch) == ["b0", "b1"]
    found: list[Any] = []
    report = queue.run(handler_of(world.flavour, found.append), until_empty=True, groups=["b"])
    assert (payloads(found), report.handled) == (["b2"], 1)
    assert queue.stats().ready == 3


def test_priorities_weights_and_turns_hold_within_the_groups_of_a_claim(world: World) -> None:
    queue = a_queue(world, 'fair {"b": 3}')
    for group in "abc":
        queue.publish_many([group] * 40, group=group)
    queue.publish_many([NewMessage("urgent", group="b")] * 3 + [NewMessage("not ours", group="c")], priority=9)
    for count in (2, 1):
        assert payloads(queue.claim(groups=["a", "b"], max_messages=count).messages) == ["urgent"] * count
    found = payloads(queue.claim(groups=["a", "b"], max_messages=20).messages)
    assert (found.count("a"), found.count("b")) == (5, 15)
    singles = [queue.claim(groups=["a", "b"]).message.payload for _ in range(20)]
    assert abs(singles.count("b") - 15) <= 1
    assert "not ours" in payloads(queue.claim(max_messages=2).messages)


def test_a_group_that_is_held_gives_nothing_until_its_holder_ends(world: World) -> None:
    queue, other = a_queue(world, "exclusive"), world.queue()
    for group in "ab":
        queue.publish_many([f"{group}1", f"{group}2"], group=group)
    held = queue.claim(groups=["a"])
    assert payloads(held.messages) == ["a1"]
    assert other.claim(groups=["a"]) is None
    assert other.backlog(groups=["a"]).ready == 0
    assert payloads(other.claim(groups=["a", "b"]).messages) == ["b1"]
    after = queue.claim_next(ack=held, groups=["b"])
    assert after is None, "another lease holds it"
    assert payloads(other.claim(groups=["a"]).messages) == ["a2"]


def test_a_claim_finds_isolated_messages_of_its_groups_alone(world: World) -> None:
    for policy in ("fair", "exclusive"):
        world.client.flushdb()
        queue = a_queue(world, policy, max_deliveries=9)
        queue.publish_many([f"a{number}" for number in range(8)], group="a")
        for _ in range(2):
            queue.nack(queue.claim(max_messages=8, groups=["a"]))
        queue.publish_many([f"b{number}" for number in range(8)], group="b")
        assert queue.claim(max_messages=9, groups=["b"]).count == 8
        lease = queue.claim(max_messages=9, groups=["a"])
        first = set(payloads(lease.messages))
        assert len(first) == 4
        assert (lease.isolation.failures, lease.isolation.most) == (2, 4)
        queue.ack(lease)
        rest = set(payloads(queue.claim(max_messages=9, groups=["a"]).messages))
        assert first | rest == {f"a{number}" for number in range(8)}


def test_a_large_lease_is_filled_from_its_groups_alone(world: World) -> None:
    queue = a_queue(world)
    for group in "ab":
        queue.publish_many([f"{group}{number}" for number in range(5000)], group=group)
    lease = queue.claim(max_messages=20_000, groups=["b"])
    assert lease.count == 5000
    assert {message.group for message in queue.messages(lease)} == {"b"}
    assert queue.stats().ready == 5000


def test_a_lease_that_exists_is_taken_over_whatever_its_groups(world: World) -> None:
    queue, other = a_queue(world), world.queue()
    queue.publish("x", group="a")
    queue.claim(lease_id="job", groups=["a"])
    assert payloads(other.claim(lease_id="job", groups=["b"]).messages) == ["x"]


def test_a_claim_without_a_reply_is_repeated_only_by_one_of_its_groups(world: World) -> None:
    queue = a_queue(world, lease=None)
    queue.publish("a", group="a")
    queue.publish("b", group="b")
    lose_answer(queue, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        queue.claim(groups=["a"])
    assert payloads(queue.claim(groups=["b"]).messages) == ["b"]
    assert queue.claim(groups=["b", "a"]) is None
    found = queue.claim(groups=["a"])
    assert payloads(queue.messages(found)) == ["a"]
    queue.release(found)
    lose_answer(queue, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        queue.claim(groups=["a"])
    assert payloads(queue.messages(queue.claim())) == ["a"], "any group will do"


def test_a_queue_without_groups_says_how_to_get_some(world: World) -> None:
    queue = world.queue()
    held = (queue.publish("x"), queue.claim())[1]
    for call in (queue.claim, lambda groups: queue.claim_next(ack=held, groups=groups), queue.backlog):
        with pytest.raises(ConfigurationError, match=r"lets nobody choose groups.*configure\(groups='fair'"):
            call(groups=["a"])
    assert queue.ack(held).settled == 1
    grouped = a_queue(world)
    waiting = seeking(world, "a")
    blocked(world, 1)
    grouped.admin.configure(reset="groups")
    with pytest.raises(ConfigurationError, match="lets nobody choose groups"):
        waiting.result(10)


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ("tenant", "groups must be a list of names"),
        ([], "groups must be 1 to 100 names, not 0"),
        (list(map(str, range(101))), "groups must be 1 to 100 names, not 101"),
        (["a\n"], "groups: group must be a text"),
        ([5], "groups: group must be a text"),
        (5, "groups must be a list of names"),
    ],
)
def test_other_groups_are_refused_before_anything_is_sent(groups: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        drive(claim(engine(), groups=groups), [])


EVENTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "publish": (lambda _: None, lambda queue, _: queue.publish("x", group="ours")),
    "publish_many": (lambda _: None, lambda queue, _: queue.publish_many(["x"] * 3000, group="ours")),
    "resume": (
        lambda queue: (queue.admin.pause(), queue.publish("x", group="ours")),
        lambda queue, _: queue.admin.resume(),
    ),
    "release": (lambda queue: (queue.publish("x", group="ours"), queue.claim())[1], lambda q, lease: q.release(lease)),
    "end of the holder": (
        lambda queue: (queue.publish_many(["x", "y"], group="ours"), queue.claim())[1],
        lambda queue, lease: queue.ack(lease),
    ),
    "due delay": (lambda _: None, lambda queue, _: queue.publish("x", group="ours", delay=0.05)),
    "due delay that another consumer waits for": (
        lambda queue: queue.publish("x", group="ours", delay=0.3),
        lambda queue, _: None,
    ),
    "due delay that a poll ends": (
        lambda queue: queue.publish("x", group="ours", delay=0.3),
        lambda queue, _: eventually(lambda: queue.backlog().ready or not queue.stats().delayed),
    ),
    "due nack": (
        lambda queue: (queue.publish("x", group="ours"), queue.claim())[1],
        lambda queue, lease: queue.nack(lease, delay=0.05),
    ),
    "stage": (lambda q: q.stage(["x"], group="ours"), lambda queue, staged: queue.publish_staged([staged])),
    "end of a batch": (
        lambda queue: (queue.publish_many(["x", "y"], group="ours"), queue.claim())[1],
        lambda queue, lease: queue.claim_next(ack=lease, groups=["theirs"]),
    ),
}


@pytest.mark.parametrize("event", list(EVENTS))
def test_whatever_makes_messages_of_its_group_ready_wakes_a_claim(world: World, event: str) -> None:
    prepare, happen = EVENTS[event]

    def attempt() -> float:
        world.client.flushdb()
        queue = a_queue(world, "exclusive")
        prepared = prepare(queue)
        others = [seeking(world, "theirs") for _ in range(2)]
        blocked(world, 2)
        waiting = seeking(world, "ours")
        blocked(world, 3)
        began = time.monotonic()
        happen(world.queue(), prepared)
        assert waiting.result(LONG_S).message.group == "ours"
        took = time.monotonic() - began
        assert not any(other.done() for other in others)
        queue.publish_many(["1", "2"], group="theirs")
        first = eventually(lambda: next((other for other in others if other.done()), None))
        queue.ack(first.result())
        for other in others:
            assert other.result(LONG_S).message.group == "theirs"
        return took

    assert woken_soon(attempt)


def test_an_expired_lease_wakes_the_consumer_of_its_group(world: World) -> None:
    def attempt() -> float:
        world.client.flushdb()
        queue = a_queue(world)
        theirs, ours = seeking(world, "theirs"), seeking(world, "ours")
        blocked(world, 2)
        queue.publish("x", group="other")
        queue.publish("x", group="ours", delay=0.01)
        ours.result(LONG_S)
        ours = seeking(world, "ours")
        blocked(world, 2)
        held = queue.claim(lease=0.2)
        assert held.message.group == "other"
        queue.publish("y", group="other")
        mine = seeking(world, "other", lease=0.2)
        assert mine.result(LONG_S).message.payload == "y"
        began = time.monotonic()
        assert seeking(world, "other").result(LONG_S).message.group == "other"
        took = time.monotonic() - began
        for group, waiting in (("theirs", theirs), ("ours", ours)):
            queue.publish("end", group=group)
            assert waiting.result(LONG_S).message.payload == "end"
        return took

    assert woken_soon(attempt)


def test_no_wake_up_is_lost_among_consumers_of_several_groups_and_of_all(world: World, full_faults: bool) -> None:
    """Each consumer asks again as soon as it got a message; nothing may stay in the queue while one waits for it."""
    chance, queue, groups = random.Random(7), a_queue(world), "abc"
    longest, consumers = 0.0, [[name] for name in groups] * 2 + [["a", "b"]]
    waiting = [(names, seeking(world, *names)) for names in consumers]
    for number in itertools.count():
        if number == (400 if full_faults else 60):
            break
        group = chance.choice(groups)
        began = time.monotonic()
        queue.publish(str(number), group=group)
        if chance.random() < 0.3:
            queue.publish("for nobody", group="d")

        def found(group: str = group) -> int | None:
            done = (at for at, (names, each) in enumerate(waiting) if each.done() and group in names)
            return next(done, None)

        at = eventually(lambda: None if (place := found()) is None else place + 1) - 1
        longest = max(longest, time.monotonic() - began)
        names, each = waiting[at]
        lease = each.result()
        assert lease.message.payload == str(number)
        waiting[at] = (names, seeking(world, *names))
        queue.ack(lease)
    assert longest < SOON_S
    all_of_it = world.in_background(world.queue().claim, max_messages=1000, wait=LONG_S)
    assert set(payloads(all_of_it.result(LONG_S).messages)) == {"for nobody"}
    for names, each in waiting:
        queue.publish_many(["end"] * len(waiting), group=names[0])
        each.result(LONG_S)


def test_a_waiting_claim_of_some_groups_takes_no_wake_up_from_one_of_all(world: World) -> None:
    queue = a_queue(world)

    def attempt() -> float:
        seekers = [seeking(world, "absent") for _ in range(3)]
        any_group = world.in_background(world.queue().claim, wait=LONG_S)
        blocked(world, 4)
        began = time.monotonic()
        queue.publish("x", group="a")
        queue.ack(any_group.result(LONG_S))
        took = time.monotonic() - began
        for seeker in seekers:
            queue.publish_many(["end"] * 3, group="absent")
            seeker.result(LONG_S)
        drain(queue)
        return took

    assert woken_soon(attempt)


def test_a_claim_that_waits_in_vain_ends_in_time_and_leaves_little_behind(world: World) -> None:
    queue = a_queue(world)
    queue.publish("x", group="b")
    began = time.monotonic()
    assert queue.claim(wait=0.3, groups=["a"]) is None
    assert time.monotonic() - began > 0.2
    for name in ("wanted", "news"):
        assert world.client.pttl(key(name)) in range(-2, 60_001)
    assert world.client.llen(key("wake")) == 0
    assert queue.stats().ready == 1


def empty(block: int, until: int, now: int, last: str) -> list[Any]:
    return [b"empty %d %d %d %s" % (block, until, now, last.encode()), [], []]


def news(*entries: tuple[int, bytes]) -> list[Any]:
    return [[b"rmq:{q}:news", [[b"%d-0" % at, [b"groups", names]] for at, names in entries]]]


def test_news_of_other_groups_make_a_claim_wait_on_for_the_rest_of_its_time() -> None:
    replies = [
        empty(500, 9000, 1000, "7-0"),
        news((1200, b"b\0")),
        news((1300, b"b\0"), (1400, b"aa\0")),
        news((1450, b"b\0a\0")),
        claimed(1),
    ]
    lease, wants = drive(claim(engine(), wait=8, groups=["a"]), replies)
    assert lease.count == 1
    waits = [(want.args[4], want.args[-1]) for want in wants[1:4]]
    assert waits == [(500, "7-0"), (300, "1200-0"), (100, "1400-0")]
    assert given(wants[4], "from_groups", "wait_end") == ["a", 9000]


@pytest.mark.parametrize("reply", [None, news((1200, b"")), news((1600, b"b\0")), news(*[(1100, b"b\0")] * 64)])
def test_a_claim_asks_again_after_its_time_and_after_news_for_all_or_too_many(reply: Any) -> None:
    lease, wants = drive(claim(engine(), wait=8, groups=["a"]), [empty(500, 9000, 1000, "0-0"), reply, claimed(1)])
    assert lease.count == 1
    assert len(wants) == 3


def test_the_reply_to_a_resend_makes_a_claim_ask_again_at_once() -> None:
    lease, wants = drive(claim(engine(), wait=8, groups=["a"]), [[b"empty 1 9000", [], []], claimed(1)])
    assert lease.count == 1
    assert len(wants) == 2


def test_an_unavailable_server_ends_a_wait() -> None:
    core = engine()
    with pytest.raises(QueueUnavailable):
        drive(claim(core, wait=8, groups=["a"]), [empty(500, 9000, 1000, "0-0"), QueueUnavailable("gone")])
    assert list(core.chosen.values()) == ["a"]
    assert core.chosen.keys() == core.unanswered.keys()


def test_a_reclaimed_message_is_claimed_at_once_by_its_group(world: World) -> None:
    queue = a_queue(world)
    queue.publish("x", group="a")
    expire(world, queue.claim().id)
    assert payloads(queue.claim(groups=["a"]).messages) == ["x"]


def test_a_backlog_of_some_groups_counts_their_messages_alone(world: World) -> None:
    queue = a_queue(world, "exclusive")
    queue.publish("old", group="a")
    time.sleep(0.05)
    queue.publish_many(["1", "2"], group="b")
    queue.publish("due", group="b", delay=0.001)
    queue.publish("none")
    time.sleep(0.01)
    of_a, of_b, of_all = queue.backlog(groups=["a"]), queue.backlog(groups=["b"]), queue.backlog()
    assert (of_a.ready, of_b.ready, queue.backlog(groups=["", "absent"]).ready, of_all.ready) == (1, 3, 1, 5)
    assert of_a.oldest_age >= of_b.oldest_age + 0.03
    assert queue.backlog(groups=["a", "b"]).oldest_age >= of_a.oldest_age
    assert queue.backlog(groups=["absent"])[:2] == (0, None)
    held = queue.claim(groups=["b"])
    assert queue.backlog(groups=["b"])[:2] == (0, None)
    queue.release(held)
    assert queue.backlog(groups=["b"]).ready == 3
    expire(world, queue.claim(groups=["b"]).id)
    assert queue.backlog(groups=["b"]).ready == 3
    queue.admin.pause()
    assert queue.backlog(groups=["b"]).paused


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
def test_a_backlog_says_how_many_isolated_messages_claims_may_take(world: World, policy: str) -> None:
    queue = a_queue(world, policy, max_deliveries=9)
    for group in "ab":
        queue.publish_many([f"{group}{number}" for number in range(8)], group=group)
        for _ in range(2):
            queue.nack(queue.claim(max_messages=8, groups=[group]))
    queue.publish_many(["new"] * 3, group="c")
    assert queue.backlog(groups=["c"]).groups == ()
    assert queue.backlog(groups=["b", "c"]).groups == ((8, 4),)
    found = queue.backlog()
    assert (found.ready, found.groups) == (19, ((8, 4), (8, 4)))
    assert found.claims(100) == 5
    assert queue.stats().isolated == 16
    claims = 0
    while lease := queue.claim(max_messages=100):
        queue.ack(lease)
        claims += 1
    assert claims == found.claims(100)
    assert queue.backlog().groups == ()
    assert queue.stats().isolated == 0


def test_isolated_messages_of_several_groups_that_failed_together_count_once(world: World) -> None:
    queue = a_queue(world, max_deliveries=9)
    for group in "ab":
        queue.publish_many([f"{group}{number}" for number in range(150)], group=group)
    for _ in range(2):
        queue.nack(queue.claim(max_messages=300))
    found = queue.backlog()
    assert sum(group.size for group in found.groups) == found.ready == 300
    assert {group.most for group in found.groups} == {150}
    assert queue.backlog(groups=["a"]).groups == ((150, 150),)
    assert queue.claim(max_messages=300).count == 150


def test_a_wait_for_groups_ends_with_their_messages_and_others_disturb_no_other_wait(world: World) -> None:
    queue = a_queue(world)

    async def waits() -> list[Any]:
        async with WaitHub(world.url) as hub:
            ours, all_of_it = (
                asyncio.create_task(hub.wait("q", min_messages=count, groups=groups, timeout=LONG_S))
                for count, groups in ((2, ["ours"]), (4, None))
            )
            await asyncio.to_thread(queue.publish_many, ["1", "2"], group="theirs")
            await asyncio.to_thread(queue.publish, "3", group="ours")
            done, _ = await asyncio.wait([ours, all_of_it], timeout=0.5)
            assert not done
            await asyncio.to_thread(queue.publish, "4", group="ours")
            return [await ours, await all_of_it]

    ours, everything = asyncio.run(waits())
    assert (ours.ready, everything.ready) == (2, 4)


def test_a_wait_for_groups_of_a_queue_without_any_raises(world: World) -> None:
    world.queue().publish("x")

    async def wait() -> None:
        async with WaitHub(world.url) as hub:
            await hub.wait("q", groups=["a"], timeout=LONG_S)

    with pytest.raises(ConfigurationError, match="lets nobody choose groups"):
        asyncio.run(wait())
