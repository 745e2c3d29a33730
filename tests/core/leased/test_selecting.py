"""Search, and changes of the messages that meet conditions, also while consumers claim and nack."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from rmq_core import ConfigurationError, LeasedConfig, LeaseLost, Match, NewMessage
from rmq_core.reports import Progress
from tests.core.leases import key, payloads
from tests.core.worlds import World

ONCE = LeasedConfig(max_deliveries=1)
STATES = ("ready", "isolated", "delayed", "dead", "completed", "failed")


def found(queue: Any, target: str, where: Match) -> list[Any]:
    """Search to the end; return the payloads."""
    messages, after = [], None
    while True:
        page = queue.admin.search(target, where, after=after)
        messages += page.messages
        after = page.after
        if after is None:
            return payloads(messages)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Match(message_id="id-2"), ["apple pie"]),
        (Match(text="apple"), ["apple pie", "apple"]),
        (Match(text='"n":7'), [{"n": 7}]),
        (Match(header="tenant"), ["apple pie", "apple"]),
        (Match(header="tenant=b"), ["apple pie"]),
        (Match(header="tenant=b", text="pear"), []),
        (Match(header="a=b=c"), ["pear"]),
        (Match(header="a=b"), ["pear"]),
        (Match(text="id-1"), []),
    ],
)
def test_a_search_finds_what_meets_all_conditions(world: World, where: Match, expected: list[Any]) -> None:
    queue = world.queue()
    queue.publish_many(
        [
            NewMessage("apple", id="id-1", headers={"tenant": "a"}),
            NewMessage("apple pie", id="id-2", headers={"tenant": "b"}),
            NewMessage("pear", id="id-3", headers={"a=b": "c"}),
            NewMessage({"n": 7}, id="id-4"),
        ]
    )
    assert sorted(map(str, found(queue, "ready", where))) == sorted(map(str, expected))


def test_a_search_of_leased_messages_names_lease_and_owner(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    queue.claim(lease_id="one", owner="me")
    queue.claim(lease_id="two", owner="you", max_messages=2)
    page, hits = queue.admin.search("leased", Match(text="b")), []
    while page.after:
        pairs = zip(page.messages, page.owners, strict=True)
        hits += [(message.payload, message.lease_id, owner) for message, owner in pairs]
        page = queue.admin.search("leased", Match(text="b"), after=page.after)
    assert hits == [("b", "two", "you")]


def test_a_search_goes_page_by_page_and_says_how_far_it_is(world: World) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(2_500)))
    first = queue.admin.search("ready", Match(text="7"))
    assert (first.scanned, first.total, first.moved) == (1_000, 2_500, False)
    assert first.messages[0].payload == "2497"
    queue.publish("newer")
    second = queue.admin.search("ready", Match(text="7"), after=first.after)
    assert (second.scanned, second.total, second.moved) == (2_000, 2_501, True)
    assert not {message.id for message in second.messages} - {
        message.id for message in queue.admin.peek(2_501) if "7" in message.payload
    }
    assert len(found(queue, "ready", Match(text="7"))) == sum("7" in str(n) for n in range(2_500))


def test_a_search_with_a_wrong_argument_says_what_is_valid(world: World) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(3)))
    after = queue.admin.search("ready", Match(text="x")).after
    with pytest.raises(ConfigurationError, match="target must be one of ready, isolated"):
        queue.admin.search("gone", Match(text="x"))
    for wrong in ("?", "bm9uc2Vuc2U=", 7):
        with pytest.raises(ConfigurationError, match="after must be"):
            queue.admin.search("ready", Match(text="x"), after=wrong)
    with pytest.raises(ConfigurationError, match="of dead messages"):
        queue.admin.search("dead", Match(text="x"), after=after)
    with pytest.raises(ConfigurationError, match="where must be a Match"):
        queue.admin.search("ready", "x")
    with pytest.raises(ConfigurationError, match="needs a condition"):
        Match()
    with pytest.raises(ConfigurationError, match="text must be a text"):
        Match(text="")
    with pytest.raises(ConfigurationError, match="a key that the publisher named"):
        queue.admin.redrive(where=Match(dedup_key="order 7"))


def test_messages_are_found_by_the_key_that_the_queues_settings_give_them(world: World) -> None:
    config = LeasedConfig(dedup_key=lambda payload: f"order {payload['order']}")
    queue = world.queue(config=config)
    queue.publish_many([{"order": 7}, {"order": 8}])
    world.client.rpush(key("ready"), b"0 1700000000000 0 odd s0 no dict")
    assert found(queue, "ready", Match(dedup_key="order 8")) == [{"order": 8}]
    assert queue.admin.purge("ready", where=Match(dedup_key="order 7")) == 1
    assert queue.publish({"order": 7}).accepted
    assert not queue.publish({"order": 8}).accepted


@pytest.mark.parametrize("state", STATES)
def test_a_purge_by_filter_deletes_only_what_meets_it(world: World, state: str) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=2, completed_log=5_000, failed_log=5_000))
    strict = world.queue(config=ONCE)
    texts = [f"{'bad' if n % 5 == 0 else 'good'} {n}" for n in range(2_100)]
    queue.publish_many(texts, delay=3600 if state == "delayed" else None)
    if state == "isolated":
        for _ in range(2):
            queue.nack(queue.claim(max_messages=2_100))
    if state == "completed":
        queue.ack(queue.claim(max_messages=2_100))
    if state == "failed":
        queue.nack(queue.claim(max_messages=2_100))
    if state == "dead":
        strict.nack(strict.claim(max_messages=2_100))
    assert queue.admin.purge(state, where=Match(text="bad")) == 420
    assert queue.admin.purge(state, where=Match(text="bad")) == 0
    kept = found(queue, state, Match(text=" "))
    assert sorted(kept) == sorted(text for text in texts if "good" in text)


def test_progress_is_told_and_can_stop_each_long_operation(world: World) -> None:
    queue = world.queue(config=ONCE)
    queue.publish_many(map(str, range(3_000)))
    queue.nack(queue.claim(max_messages=3_000), reason="broken")
    seen: list[Progress] = []

    def twice(done: Progress) -> bool:
        seen.append(done)
        return len(seen) < 2

    (group,) = queue.admin.dead_reasons(progress=twice)
    assert group.count == 2_000
    assert seen == [Progress(0, 1_000, 3_000), Progress(0, 2_000, 3_000)]
    seen.clear()
    assert queue.admin.redrive(where=Match(reason="broken"), progress=twice) == 2_000
    assert [done.changed for done in seen] == [1_000, 2_000]
    seen.clear()
    assert queue.admin.purge("dead", where=Match(text="1"), progress=lambda _: False) < 1_000
    assert queue.admin.redrive(progress=lambda _: False) <= 1_000


def test_a_redrive_by_filter_loses_and_doubles_nothing_while_others_change_the_dead_letters(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1, max_dead=100_000))
    total = 12_000
    queue.publish_many([f"{'bad' if n % 3 else 'good'} {n}" for n in range(total)])
    while lease := queue.claim(max_messages=total):
        queue.nack(lease, reason="deploy 7")
    assert queue.stats().dead == total
    stop = threading.Event()

    def nack_and_redrive() -> None:
        other = world.queue(config=ONCE)
        while not stop.is_set():
            other.admin.redrive(25)
            if lease := other.claim(max_messages=20):
                try:
                    other.nack(lease, reason="other cause")
                except LeaseLost:  # pragma: no cover
                    return

    others = [world.in_background(nack_and_redrive) for _ in range(2)]
    redriven = [queue.admin.redrive(where=Match(reason="deploy #", text="bad")) for _ in range(3)]
    purged = queue.admin.purge("dead", where=Match(reason="deploy #", text="good"))
    stop.set()
    for each in others:
        each.result(60)
    assert sum(redriven) > total / 4
    left = Counter(message.payload for place in ("ready", "dead") for message in everything(queue, place))
    assert sum(left.values()) == total - purged
    assert max(left.values()) == 1
    assert not any(
        group.reason == "deploy #" and queue.admin.search("dead", Match(text="bad", reason="deploy #")).messages
        for group in queue.admin.dead_reasons()
    )


def everything(queue: Any, place: str) -> list[Any]:
    messages: list[Any] = []
    page = queue.admin.browse(place, 0, 1_000)
    while page.messages:
        messages += page.messages
        page = queue.admin.browse(place, len(messages), 1_000)
    return messages
