"""Tests of publishing: accepted payloads, deduplication, and refusals before anything is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmq_core import RedisMessageQueueError
from tests.core.redis_message_queue.behind import waiting
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.worlds import AsyncWorld, World


def test_the_same_text_is_accepted_once_from_any_number_of_publishers(world: World) -> None:
    queues = [world.queue() for _ in range(4)]
    taken = [world.in_background(queues[n % 4].publish, "same") for n in range(12)]
    assert sorted(future.result() for future in taken) == [False] * 11 + [True]
    assert waiting(world) == ["same"]


def test_a_key_function_that_is_falsy_is_called_like_any_other(world: World) -> None:
    class Keys(dict[str, str]):
        """A key function that is an empty table, and therefore falsy."""

        def __call__(self, message: Any) -> str:
            return self.setdefault(message["order"], f"key of {message['order']}")

    queue = world.queue(get_deduplication_key=Keys())
    assert [queue.publish({"order": "7", "try": number}) for number in (1, 2)] == [True, False]


def test_dicts_with_the_same_keys_in_any_order_are_duplicates(world: World) -> None:
    queue = world.queue()
    assert queue.publish({"user": "alice", "n": 1})
    assert not queue.publish({"n": 1, "user": "alice"})
    assert queue.publish({"n": 2, "user": "alice"})


def test_a_dict_arrives_as_json_with_sorted_keys(world: World) -> None:
    queue = world.queue()
    queue.publish({"b": [1, None, True], "a": {"y": 1.5, "x": "é"}})
    assert handle(queue) == '{"a": {"x": "\\u00e9", "y": 1.5}, "b": [1, null, true]}'


def test_the_same_message_is_accepted_again_after_the_window(world: World) -> None:
    queue = world.glance(message_deduplication_log_ttl_seconds=30)
    assert queue.publish("x")
    assert not queue.publish("x")
    expiries = [
        world.inspector.pttl(key) for key in world.inspector.keys("*") if 0 < world.inspector.pttl(key) <= 30_000
    ]
    assert expiries, "the mark of a message does not expire after half a minute"


def test_the_deduplication_window_is_an_hour_unless_a_gateway_sets_another(world: World) -> None:
    world.queue().publish("x")
    expiries = [world.inspector.ttl(key) for key in world.inspector.keys("*")]
    assert any(3590 <= seconds <= 3600 for seconds in expiries)


def test_a_key_function_decides_what_is_a_duplicate(world: World) -> None:
    queue = world.queue(get_deduplication_key=lambda message: message["order_id"])
    assert queue.publish({"order_id": "7", "state": "new"})
    assert not queue.publish({"order_id": "7", "state": "paid"})
    assert waiting(world) == [json.dumps({"order_id": "7", "state": "new"})]


def test_an_async_key_function_is_awaited() -> None:
    from tests.core.redis_message_queue.places import Fake

    async def key(message: str) -> str:
        return message[0]

    with AsyncWorld(Fake()) as world:
        queue = world.queue(get_deduplication_key=key)
        assert [queue.publish(text) for text in ("ab", "ac", "bc")] == [True, False, True]


def test_a_sync_queue_refuses_an_async_key_function(one_world: World) -> None:
    class Later:
        def __await__(self) -> Any:
            yield

    queue = one_world.queue(get_deduplication_key=lambda _: Later())
    if one_world.flavour == "sync":
        with pytest.raises(TypeError, match="get_deduplication_key"):
            queue.publish("x")
        assert waiting(one_world) == []


@pytest.mark.parametrize("key", [1, None, b"bytes"])
def test_a_key_that_is_not_text_is_refused(one_world: World, key: object) -> None:
    queue = one_world.queue(get_deduplication_key=lambda _: key)
    with pytest.raises(TypeError, match="get_deduplication_key"):
        queue.publish("x")
    assert waiting(one_world) == []


def test_without_key_function_the_message_itself_is_the_key(world: World) -> None:
    queue = world.queue(get_deduplication_key=None)
    assert [queue.publish(each) for each in ("x", "x", {"a": 1}, '{"a": 1}')] == [True, False, True, False]


def test_different_messages_with_an_empty_key_are_no_duplicates(world: World) -> None:
    queue = world.queue(get_deduplication_key=lambda _: "")
    with pytest.raises((ValueError, RedisMessageQueueError)):
        queue.publish("x")
    assert waiting(world) == []


@pytest.mark.parametrize("wrong", [1, None, b"bytes", ["list"], ("tuple",), {"a"}], ids=repr)
def test_only_text_and_dicts_are_messages(one_world: World, wrong: object) -> None:
    with pytest.raises(TypeError):
        one_world.queue().publish(wrong)
    assert waiting(one_world) == []


@pytest.mark.parametrize(
    "wrong",
    [{1: "x"}, {None: "x"}, {"a": "x", 2: "y"}, {"nested": {1: "x"}}, {"list": [{"deep": {True: "x"}}]}],
    ids=repr,
)
def test_a_dict_whose_keys_json_would_change_is_refused_at_any_depth(one_world: World, wrong: Any) -> None:
    with pytest.raises(TypeError):
        one_world.queue().publish(wrong)
    assert waiting(one_world) == []


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_does_not_have_are_refused(one_world: World, number: float) -> None:
    with pytest.raises(ValueError):
        one_world.queue().publish({"n": number})
    assert waiting(one_world) == []


@pytest.mark.parametrize("deduplication", [True, False])
def test_text_that_cannot_be_encoded_is_refused_before_anything_is_stored(
    one_world: World, deduplication: object
) -> None:
    queue = one_world.queue(deduplication=deduplication)
    with pytest.raises(ValueError):
        queue.publish("\udc80")
    assert waiting(one_world) == []
    assert queue.publish("valid")


@pytest.mark.parametrize("text", ["Zürich", "日本語", "🜚", "line\nbreak", "\x1eRMQ1:{}", "a\0b", '"quoted\\"'])
def test_any_text_is_delivered_unchanged(world: World, text: str) -> None:
    queue = world.queue()
    queue.publish(text)
    assert handle(queue) == text


def test_messages_are_claimed_in_the_order_in_which_they_were_published(world: World) -> None:
    queue = world.queue()
    for n in range(20):
        queue.publish(f"m{n}")
    assert [handle(queue) for _ in range(20)] == [f"m{n}" for n in range(20)]
