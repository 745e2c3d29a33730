"""The built-in gateway: its methods, its parameters, and the clients it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
import redis.asyncio.sentinel
import redis.sentinel

from rmq_core import ConfigurationError
from rmq_core.redis_message_queue import ClaimedMessage
from tests.core.redis_message_queue.behind import expire, in_hand, logged, waiting
from tests.core.redis_message_queue.places import Real
from tests.core.redis_message_queue.worlds import SyncWorld, World

PENDING, PROCESSING = "q::pending", "q::processing"


def claimed(world: World, gateway: Any = None) -> tuple[Any, ClaimedMessage]:
    """Return the methods of a gateway, blocking, and a message it claimed."""
    verbs = world.blocking(gateway or world.gateway())
    verbs.add_message(PENDING, "x")
    claim = verbs.wait_for_message_and_move(PENDING, PROCESSING)
    assert isinstance(claim, ClaimedMessage)
    return verbs, claim


def test_publishing_is_deduplicated_by_the_given_key(world: World) -> None:
    verbs = world.blocking(world.gateway())
    assert verbs.publish_message(PENDING, "x", "q::deduplication::1") is True
    assert verbs.publish_message(PENDING, "y", "q::deduplication::1") is False
    assert verbs.publish_message(PENDING, "y", "q::deduplication::2") is True
    assert verbs.add_message(PENDING, "x") is None
    assert waiting(world) == ["x", "y", "x"]


def test_a_claim_is_removed_with_its_token_once(world: World) -> None:
    verbs, claim = claimed(world)
    assert in_hand(world) == 1
    remove = verbs.remove_message
    assert remove(PROCESSING, claim.stored_message, lease_token=claim.lease_token) is True
    assert remove(PROCESSING, claim.stored_message, lease_token=claim.lease_token) is False
    assert in_hand(world) == 0


@pytest.mark.parametrize("log", ["completed", "failed"])
def test_a_claim_is_moved_with_its_token_once(world: World, log: str) -> None:
    verbs, claim = claimed(world)
    move = verbs.move_message
    assert move(PROCESSING, f"q::{log}", claim.stored_message, lease_token=claim.lease_token) is True
    assert move(PROCESSING, f"q::{log}", claim.stored_message, lease_token=claim.lease_token) is False
    assert logged(world, log) == ["x"]


def test_a_wrong_token_settles_nothing(world: World) -> None:
    verbs, claim = claimed(world)
    for token in ("0", "wrong:1", claim.lease_token + "0"):
        assert verbs.remove_message(PROCESSING, claim.stored_message, lease_token=token) is False
        assert verbs.move_message(PROCESSING, "q::completed", claim.stored_message, lease_token=token) is False
        assert verbs.renew_message_lease(PROCESSING, claim.stored_message, token) is False
    assert in_hand(world) == 1


def test_a_token_is_invalid_once_the_message_was_claimed_again(world: World) -> None:
    verbs, first = claimed(world)
    expire(world)
    second = verbs.wait_for_message_and_move(PENDING, PROCESSING)
    assert second.lease_token != first.lease_token
    assert verbs.renew_message_lease(PROCESSING, first.stored_message, first.lease_token) is False
    assert verbs.remove_message(PROCESSING, first.stored_message, lease_token=first.lease_token) is False
    assert verbs.remove_message(PROCESSING, second.stored_message, lease_token=second.lease_token) is True


def test_a_claim_can_be_passed_to_another_process_as_text(world: World) -> None:
    _, claim = claimed(world)
    text = json.dumps([claim.stored_message, claim.lease_token])
    stored, token = json.loads(text)
    elsewhere = world.blocking(world.gateway(client=world.client()))
    assert elsewhere.renew_message_lease(PROCESSING, stored, token) is True
    assert elsewhere.remove_message(PROCESSING, stored, lease_token=token) is True
    assert in_hand(world) == 0


def test_without_visibility_timeout_a_claim_is_the_message_itself(world: World) -> None:
    verbs = world.blocking(world.gateway(message_visibility_timeout_seconds=None))
    verbs.add_message(PENDING, "x")
    verbs.add_message(PENDING, "y")
    first, second = (verbs.wait_for_message_and_move(PENDING, PROCESSING) for _ in range(2))
    assert isinstance(first, str)
    assert verbs.renew_message_lease(PROCESSING, first, "any") is False
    assert verbs.remove_message(PROCESSING, second) is True
    assert verbs.remove_message(PROCESSING, second) is False
    assert verbs.move_message(PROCESSING, "q::failed", first) is True
    assert in_hand(world) == 0


def test_a_log_can_be_trimmed(world: World) -> None:
    verbs = world.blocking(world.gateway())
    for _ in range(3):
        _, claim = claimed(world, getattr(verbs, "inner", verbs))
        verbs.move_message(PROCESSING, "q::completed", claim.stored_message, lease_token=claim.lease_token)
    assert verbs.trim_queue("q::completed", 2) is None
    assert logged(world, "completed") == ["x", "x"]


def test_pending_messages_can_be_trimmed_to_the_newest(world: World) -> None:
    verbs = world.blocking(world.gateway())
    for text in "abc":
        verbs.add_message(PENDING, text)
    verbs.trim_queue(PENDING, 2)
    assert waiting(world) == ["b", "c"]


WRONG_TYPES: dict[str, tuple[Any, ...]] = {
    "retry_budget_seconds": (True, 1.5, "1", None),
    "retry_max_delay_seconds": (True, "1", None),
    "retry_initial_delay_seconds": (True, "1", None),
    "message_deduplication_log_ttl_seconds": (True, 1.5, "1"),
    "message_wait_interval_seconds": (True, 1.5, "1"),
    "message_visibility_timeout_seconds": (True, 1.5, "1"),
    "max_delivery_count": (True, "1"),
    "dead_letter_queue": (1,),
    "max_pending_length": (True, "1"),
    "interrupt": ("SIGTERM",),
}
WRONG_VALUES: dict[str, tuple[Any, ...]] = {
    "retry_budget_seconds": (-1,),
    "retry_max_delay_seconds": (0, -1, float("nan")),
    "retry_initial_delay_seconds": (0, -1, float("inf"), 6.0),
    "message_deduplication_log_ttl_seconds": (0, -1),
    "message_wait_interval_seconds": (-1,),
    "message_visibility_timeout_seconds": (0, -1),
    "max_delivery_count": (0, 3),  # 3, without naming where the dead letters go
    "dead_letter_queue": ("q::dlq",),  # without a count
    "max_pending_length": (0,),
    "pending_overload_policy": ("drop_newest", "drop_oldest"),  # the second without a length
}


def pairs(wrong: dict[str, tuple[Any, ...]]) -> list[Any]:
    return [
        pytest.param(name, value, id=f"{name}={value!r}"[:60]) for name, values in wrong.items() for value in values
    ]


@pytest.mark.parametrize(("parameter", "value"), pairs(WRONG_TYPES))
def test_a_parameter_of_a_wrong_type_is_a_type_error(no_world: World, parameter: str, value: object) -> None:
    with pytest.raises(TypeError, match=parameter):
        no_world.gateway(**{parameter: value})


@pytest.mark.parametrize(("parameter", "value"), pairs(WRONG_VALUES))
def test_a_parameter_with_a_wrong_value_is_a_configuration_error(
    no_world: World, parameter: str, value: object
) -> None:
    known = parameter if value != "drop_oldest" else "drop_oldest"
    with pytest.raises(ConfigurationError, match=known):
        no_world.gateway(**{parameter: value})


def test_a_sentinel_manager_is_refused_with_an_alternative(no_world: World) -> None:
    kind: Any = redis.sentinel.Sentinel if no_world.flavour == "sync" else redis.asyncio.sentinel.Sentinel
    for build in (no_world.gateway, no_world.queue):
        with pytest.raises(TypeError, match="master_for"):
            build(client=kind([("localhost", 1)]))


def test_a_client_with_a_single_connection_is_refused(redis_url: str) -> None:
    with SyncWorld(Real(redis_url)) as world, redis.Redis.from_url(redis_url, single_connection_client=True) as client:
        for build in (world.gateway, world.queue):
            with pytest.raises(TypeError, match="single"):
                build(client=client)


def test_the_client_of_a_sentinel_is_taken(no_world: World) -> None:
    kind: Any = redis.sentinel.Sentinel if no_world.flavour == "sync" else redis.asyncio.sentinel.Sentinel
    assert no_world.queue(client=kind([("localhost", 1)]).master_for("main"))
