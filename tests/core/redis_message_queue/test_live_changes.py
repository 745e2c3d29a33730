"""Tests of settings that change while messages exist: reachable messages, and the setting that applies."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.core.redis_message_queue.behind import dead, expire, in_hand, waiting
from tests.core.redis_message_queue.handlers import abandon, handle
from tests.core.redis_message_queue.worlds import AsyncWorld, SyncWorld, World


@pytest.mark.parametrize("changed", [{"name": "other"}, {"key_separator": "/"}], ids=["name", "separator"])
def test_another_name_or_separator_is_another_queue(world: World, changed: dict[str, Any]) -> None:
    world.queue().publish("x")
    options = {"name": "q"} | changed
    name = options.pop("name")
    gateway = world.gateway()
    assert handle(world.queue(name, gateway=gateway, **options)) is None
    assert waiting(world) == ["x"]
    assert world.queue(name, gateway=gateway, **options).publish("x") is True


def test_a_message_claimed_without_a_timeout_stays_claimed_when_a_timeout_is_set(world: World) -> None:
    old = world.queue(visibility_timeout_seconds=None, max_delivery_count=None)
    old.publish("x")
    abandon(old)
    assert handle(world.glance()) is None
    assert in_hand(world) == 1


def test_a_message_claimed_with_a_timeout_is_not_lost_when_the_timeout_is_switched_off_and_on(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    abandon(queue)
    without = world.glance(message_visibility_timeout_seconds=None)
    assert handle(without) is None
    expire(world)
    assert handle(world.queue()) == "x"


def test_a_delivery_limit_that_is_switched_off_dead_letters_nothing_more(world: World) -> None:
    limited = world.queue(max_delivery_count=2)
    limited.publish("x")
    for _ in range(2):
        abandon(limited)
        expire(world)
    unlimited = world.queue(max_delivery_count=None)
    for _ in range(3):
        assert abandon(unlimited) == "x"
        expire(world)
    assert handle(unlimited) == "x"
    assert dead(world) == []


def test_a_different_key_function_does_not_match_keys_of_the_old_one(world: World) -> None:
    message = {"order_id": "7"}
    assert world.queue().publish(message)
    by_id = world.queue(get_deduplication_key=lambda order: order["order_id"])
    assert by_id.publish(message)
    assert not by_id.publish(message)
    assert world.queue(get_deduplication_key=None).publish(message)
    assert not world.queue().publish(message)
    assert waiting(world) == [json.dumps(message)] * 3


def test_deduplication_that_is_switched_off_and_on_remembers_the_window(world: World) -> None:
    assert world.queue().publish("x")
    assert world.queue(deduplication=False).publish("x")
    assert not world.queue().publish("x")


def test_a_message_may_be_published_by_sync_code_and_processed_by_async_code_and_vice_versa(world: World) -> None:
    other_flavour: type[World] = AsyncWorld if world.flavour == "sync" else SyncWorld
    with other_flavour(world.place) as other:
        world.queue().publish("x")
        assert not other.queue().publish("x")
        assert handle(other.queue()) == "x"


def test_a_claim_of_sync_code_may_be_settled_by_async_code_and_vice_versa(world: World) -> None:
    other_flavour: type[World] = AsyncWorld if world.flavour == "sync" else SyncWorld
    with other_flavour(world.place) as other:
        ours, theirs = world.blocking(world.gateway()), other.blocking(other.gateway())
        ours.add_message("q::pending", "x")
        claim = ours.wait_for_message_and_move("q::pending", "q::processing")
        stored = str(claim.stored_message)
        assert theirs.renew_message_lease("q::processing", stored, claim.lease_token) is True
        assert theirs.remove_message("q::processing", stored, lease_token=claim.lease_token) is True
    assert in_hand(world) == 0


def test_the_removed_parameter_retry_strategy_is_refused(no_world: World) -> None:
    with pytest.raises(TypeError, match="retry_strategy"):
        no_world.gateway(retry_strategy=lambda call: call)


def test_a_key_that_holds_something_else_is_refused_before_anything_is_written(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    taken = [key for key in world.inspector.keys("*") if world.inspector.type(key) == b"list"]
    for key in taken:
        world.inspector.delete(key)
        world.inspector.set(key, "of another type")
    before = {key: world.inspector.get(key) for key in taken}
    with pytest.raises(redis.ResponseError):
        queue.publish("y")
    assert {key: world.inspector.get(key) for key in taken} == before
    for key in taken:
        world.inspector.delete(key)
    assert queue.publish("y") is True
