"""What the constructor of a queue refuses: a wrong type is a `TypeError`, a wrong value or combination a
`ConfigurationError`; both name the parameter."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from rmq_core import ConfigurationError, RedisMessageQueueError
from rmq_core.errors import GatewayContractError
from tests.core.redis_message_queue.places import Fake
from tests.core.redis_message_queue.worlds import AsyncWorld, SyncWorld, World


async def async_callable(*_: object) -> str:
    return "x"


WRONG_TYPES: dict[str, list[dict[str, Any]]] = {
    "name": [{"name": 1}, {"name": None}, {"name": b"q"}],
    "key_separator": [{"key_separator": 1}],
    "deduplication": [{"deduplication": 1}, {"deduplication": None}],
    "enable_completed_queue": [{"enable_completed_queue": 1}],
    "enable_failed_queue": [{"enable_failed_queue": "yes"}],
    "visibility_timeout_seconds": [{"visibility_timeout_seconds": wrong} for wrong in (True, 1.5, "300")],
    "max_delivery_count": [{"max_delivery_count": wrong} for wrong in (True, 1.5, "5")],
    "max_completed_length": [{"enable_completed_queue": True, "max_completed_length": wrong} for wrong in (True, 1.5)],
    "max_failed_length": [{"enable_failed_queue": True, "max_failed_length": wrong} for wrong in (True, "9")],
    "max_pending_length": [{"max_pending_length": wrong} for wrong in (True, 1.5)],
    "pending_overload_policy": [{"pending_overload_policy": None}, {"pending_overload_policy": 1}],
    "pending_overload_block_timeout_seconds": [
        {"pending_overload_block_timeout_seconds": wrong} for wrong in (True, "1", None)
    ],
    "heartbeat_interval_seconds": [{"heartbeat_interval_seconds": wrong} for wrong in (True, "60")],
    "get_deduplication_key": [{"get_deduplication_key": "order_id"}],
    "on_heartbeat_failure": [{"heartbeat_interval_seconds": 60, "on_heartbeat_failure": "log"}],
    "on_event": [{"on_event": "log"}],
    "interrupt": [{"interrupt": "SIGTERM"}],
}
WRONG_VALUES: dict[str, list[dict[str, Any]]] = {
    "name": [{"name": wrong} for wrong in ("", "  ", "a\0b", "a::b")],
    "key_separator": [{"key_separator": ""}, {"key_separator": "  "}],
    "visibility_timeout_seconds": [{"visibility_timeout_seconds": 0}, {"visibility_timeout_seconds": -1}],
    "max_delivery_count": [
        {"max_delivery_count": 0},
        {"max_delivery_count": 5, "visibility_timeout_seconds": None},
        {"visibility_timeout_seconds": None},
    ],
    "max_completed_length": [
        {"enable_completed_queue": True, "max_completed_length": 0},
        {"max_completed_length": 10},
    ],
    "max_failed_length": [{"enable_failed_queue": True, "max_failed_length": -1}, {"max_failed_length": 10}],
    "max_pending_length": [{"max_pending_length": 0}, {"max_pending_length": -1}],
    "pending_overload_policy": [{"pending_overload_policy": "drop_newest"}],
    "drop_oldest": [
        {"pending_overload_policy": "drop_oldest", "deduplication": False, "max_delivery_count": None},
        {"pending_overload_policy": "drop_oldest", "max_pending_length": 5, "max_delivery_count": None},
        {"pending_overload_policy": "drop_oldest", "max_pending_length": 5, "deduplication": False},
    ],
    "pending_overload_block_timeout_seconds": [
        {"pending_overload_block_timeout_seconds": wrong} for wrong in (-1, float("nan"), float("inf"))
    ],
    "heartbeat_interval_seconds": [
        *({"heartbeat_interval_seconds": wrong} for wrong in (0, -1, float("nan"), float("inf"), 150, 300)),
        {"heartbeat_interval_seconds": 1, "visibility_timeout_seconds": None, "max_delivery_count": None},
    ],
    "get_deduplication_key": [{"deduplication": False, "get_deduplication_key": str}],
    "on_heartbeat_failure": [{"on_heartbeat_failure": print}],
}


def cases(wrong: dict[str, list[dict[str, Any]]]) -> list[Any]:
    return [
        pytest.param(parameter, options, id=" ".join(f"{name}={value!r}" for name, value in options.items()))
        for parameter, several in wrong.items()
        for options in several
    ]


def build(world: World, options: dict[str, Any]) -> Any:
    return world.queue(**{"name": "q"} | options)


@pytest.mark.parametrize(("parameter", "options"), cases(WRONG_TYPES))
def test_a_wrong_type_is_a_type_error_that_names_the_parameter(
    no_world: World, parameter: str, options: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=parameter):
        build(no_world, options)


@pytest.mark.parametrize(("parameter", "options"), cases(WRONG_VALUES))
def test_a_wrong_value_or_combination_is_a_configuration_error_that_names_the_parameter(
    no_world: World, parameter: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        build(no_world, options)


@pytest.mark.parametrize("parameter", ["get_deduplication_key", "on_event", "on_heartbeat_failure"])
def test_a_sync_queue_refuses_an_async_callable(parameter: str) -> None:
    with SyncWorld(Fake()) as world, pytest.raises(TypeError, match=parameter):
        world.queue(**{"heartbeat_interval_seconds": 60, parameter: async_callable})


def test_an_async_queue_refuses_a_plain_on_event() -> None:
    with AsyncWorld(Fake()) as world, pytest.raises(TypeError, match="on_event"):
        world.queue(on_event=lambda _: None)


def test_a_queue_needs_a_client_or_a_gateway(no_world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"client.*gateway"):
        no_world.module.RedisMessageQueue("q")


@pytest.mark.parametrize(
    "options",
    [
        {"visibility_timeout_seconds": 30},
        {"max_delivery_count": 3},
        {"max_pending_length": 9},
    ],
    ids=lambda options: next(iter(options)),
)
def test_an_option_of_the_gateway_is_refused_together_with_a_gateway(no_world: World, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="gateway"):
        no_world.queue(gateway=no_world.gateway(), **options)


def test_a_client_or_an_interrupt_handler_beside_a_gateway_is_refused(no_world: World) -> None:
    gateway = no_world.gateway()
    for options in ({"client": no_world.client()}, {"interrupt": object()}):
        with pytest.raises(ConfigurationError, match="gateway"):
            no_world.module.RedisMessageQueue("q", gateway=gateway, **options)


def test_a_gateway_of_the_other_concurrency_model_is_refused_with_a_hint(no_world: World) -> None:
    other: type[World] = AsyncWorld if no_world.flavour == "sync" else SyncWorld
    with other(Fake()) as world, pytest.raises(GatewayContractError, match=r"asyncio|async|sync"):
        no_world.queue(gateway=world.gateway())


def test_a_heartbeat_needs_a_gateway_with_a_visibility_timeout(no_world: World) -> None:
    gateway = no_world.gateway(message_visibility_timeout_seconds=None)
    with pytest.raises(ConfigurationError, match="heartbeat_interval_seconds"):
        no_world.queue(gateway=gateway, heartbeat_interval_seconds=1)
    with pytest.raises(ConfigurationError, match="heartbeat_interval_seconds"):
        no_world.queue(gateway=no_world.gateway(message_visibility_timeout_seconds=10), heartbeat_interval_seconds=5)


def test_a_gateway_with_dead_letters_serves_one_queue(no_world: World) -> None:
    gateway = no_world.gateway(max_delivery_count=3, dead_letter_queue="a::dead_letter")
    no_world.queue("a", gateway=gateway)
    no_world.queue("a", gateway=gateway)
    with pytest.raises(ConfigurationError, match="gateway"):
        no_world.queue("b", gateway=gateway)


def test_an_error_is_caught_by_its_root_and_by_its_second_base(no_world: World) -> None:
    for base in (RedisMessageQueueError, ValueError):
        with pytest.raises(base):
            no_world.queue(visibility_timeout_seconds=0)


def test_a_queue_takes_options_by_keyword_only(no_world: World) -> None:
    with pytest.raises(TypeError):
        no_world.module.RedisMessageQueue("q", redis.Redis())
