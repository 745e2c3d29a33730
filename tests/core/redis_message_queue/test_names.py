"""Tests of the public names: their kinds, and the values that they take and return."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import redis

import rmq_core.asyncio
import rmq_core.redis_message_queue as ours
import rmq_core.redis_message_queue.asyncio as theirs

SHARED = (
    "ClaimedMessage", "MessageData", "GracefulInterruptHandler", "BaseGracefulInterruptHandler", "QueueEvent",
    "EventOperation", "EventOutcome", "RedisMessageQueueError", "ConfigurationError", "GatewayContractError",
    "LuaScriptError", "QueueBackpressureError", "QueueDrainedError", "CleanupFailedError", "RetryBudgetExhaustedError",
)  # fmt: skip
TWINS = ("RedisMessageQueue", "RedisGateway", "AbstractRedisGateway")
DOCUMENTED_FIELDS = (
    "queue", "operation", "outcome", "message_id", "claim_id", "lease_token_hash", "destination_queue",
    "exception_type", "duration_ms", "error",
)  # fmt: skip


@pytest.mark.parametrize("module", [ours, theirs], ids=["sync", "async"])
def test_the_module_exports_every_documented_name(module: ModuleType) -> None:
    assert {*SHARED, *TWINS} <= {*module.__all__}


@pytest.mark.parametrize("name", SHARED)
def test_the_sync_and_the_async_module_export_the_same_object(name: str) -> None:
    assert getattr(ours, name) is getattr(theirs, name)


@pytest.mark.parametrize("name", TWINS)
def test_the_sync_and_the_async_module_each_export_their_own_class_of_this_name(name: str) -> None:
    assert getattr(ours, name) is not getattr(theirs, name)
    assert getattr(ours, name).__name__.endswith(name)


def test_the_package_and_the_submodule_of_handlers_hold_the_same_classes() -> None:
    assert rmq_core.RedisMessageQueue is ours.RedisMessageQueue
    assert rmq_core.asyncio.RedisMessageQueue is theirs.RedisMessageQueue
    handlers = importlib.import_module("rmq_core.interrupt_handler")
    assert handlers.GracefulInterruptHandler is ours.GracefulInterruptHandler
    assert handlers.BaseGracefulInterruptHandler is ours.BaseGracefulInterruptHandler


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("ConfigurationError", ValueError),
        ("GatewayContractError", TypeError),
        ("LuaScriptError", redis.ResponseError),
        ("RetryBudgetExhaustedError", redis.RedisError),
        ("QueueBackpressureError", Exception),
        ("QueueDrainedError", Exception),
        ("CleanupFailedError", Exception),
    ],
)
def test_an_error_has_the_base_class_and_its_second_base(name: str, second: type[Exception]) -> None:
    assert issubclass(getattr(ours, name), ours.RedisMessageQueueError)
    assert issubclass(getattr(ours, name), second)


def test_an_event_has_the_documented_fields_and_is_frozen() -> None:
    event = ours.QueueEvent(
        queue="q",
        operation=ours.EventOperation.ACK,
        outcome=ours.EventOutcome.SUCCESS,
    )
    assert [getattr(event, name) for name in DOCUMENTED_FIELDS] == ["q", "ack", "success", *[None] * 7]
    with pytest.raises(AttributeError):
        event.queue = "other"  # type: ignore[misc]


def test_a_claimed_message_contains_what_was_stored_and_its_token() -> None:
    claimed = ours.ClaimedMessage(stored_message=b"x", lease_token="t")
    assert (claimed.stored_message, claimed.lease_token) == (b"x", "t")
    assert claimed == ours.ClaimedMessage(b"x", "t")
    with pytest.raises(AttributeError):
        claimed.lease_token = "u"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("stored", "token", "error"),
    [(1, "t", TypeError), ("x", b"t", TypeError), ("x", None, TypeError), ("x", "", ValueError)],
)
def test_a_claimed_message_refuses_values_that_could_not_be_settled(
    stored: object, token: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        ours.ClaimedMessage(stored, token)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [ours, theirs], ids=["sync", "async"])
def test_a_gateway_without_its_abstract_methods_cannot_be_created(module: ModuleType) -> None:
    with pytest.raises(TypeError, match="abstract"):
        module.AbstractRedisGateway()
    with pytest.raises(TypeError, match="abstract"):
        ours.BaseGracefulInterruptHandler()  # type: ignore[abstract]
