"""Tests of the public names: their kinds, and the values that they take and return."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import redis

import rmq_core
import rmq_core.asyncio

SHARED = (
    "ClaimedMessage", "MessageData", "GracefulInterruptHandler", "BaseGracefulInterruptHandler", "QueueEvent",
    "EventOperation", "EventOutcome", "RedisMessageQueueError", "ConfigurationError", "GatewayContractError",
    "LuaScriptError", "QueueBackpressureError", "QueueDrainedError", "CleanupFailedError", "RetryBudgetExhaustedError",
)  # fmt: skip
TWINS = ("RedisMessageQueue", "RedisGateway", "AbstractRedisGateway")
DOCUMENTED_OPERATIONS = (
    "publish", "publish_dedup_hit", "claim", "claim_empty", "claim_reclaim", "ack", "nack", "dlq", "completed",
    "failed", "lease_renew", "lease_renew_failed", "heartbeat_stop_timeout", "stale_lease_ack", "stale_lease_nack",
    "cleanup_failed", "trim_failed", "retry_attempt", "retry_exhausted",
)  # fmt: skip
DOCUMENTED_FIELDS = (
    "queue", "operation", "outcome", "message_id", "claim_id", "lease_token_hash", "destination_queue",
    "exception_type", "duration_ms", "error",
)  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_the_sync_and_the_async_module_export_the_same_object(name: str) -> None:
    assert getattr(rmq_core, name) is getattr(rmq_core.asyncio, name)


@pytest.mark.parametrize("name", TWINS)
def test_the_sync_and_the_async_module_each_export_their_own_class_of_this_name(name: str) -> None:
    assert getattr(rmq_core, name) is not getattr(rmq_core.asyncio, name)
    assert getattr(rmq_core, name).__name__.endswith(name)


@pytest.mark.parametrize("module", [rmq_core, rmq_core.asyncio], ids=["sync", "async"])
@pytest.mark.parametrize("name", [*SHARED, *TWINS])
def test_a_documented_name_is_listed_for_star_imports(module: ModuleType, name: str) -> None:
    assert name in module.__all__


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("redis_message_queue", "RedisMessageQueue"),
        ("interrupt_handler", "GracefulInterruptHandler"),
        ("interrupt_handler", "BaseGracefulInterruptHandler"),
    ],
)
def test_a_public_submodule_holds_the_same_class(path: str, name: str) -> None:
    assert getattr(importlib.import_module(f"rmq_core.{path}"), name) is getattr(rmq_core, name)


def test_the_submodule_of_the_asyncio_module_contains_the_same_class() -> None:
    module = importlib.import_module("rmq_core.asyncio.redis_message_queue")
    assert module.RedisMessageQueue is rmq_core.asyncio.RedisMessageQueue


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
    assert issubclass(getattr(rmq_core, name), rmq_core.RedisMessageQueueError)
    assert issubclass(getattr(rmq_core, name), second)


def test_an_error_can_be_created_with_a_text_and_shows_it() -> None:
    for name in (each for each in SHARED if each.endswith("Error")):
        assert str(getattr(rmq_core, name)("why")).startswith("why")


def test_every_documented_operation_is_a_member_of_the_enum() -> None:
    assert set(DOCUMENTED_OPERATIONS) <= {str(operation) for operation in rmq_core.EventOperation}
    assert rmq_core.EventOperation.CLAIM_RECLAIM == "claim_reclaim"


def test_outcomes_are_strings() -> None:
    assert {"success", "failure", "skipped"} <= {str(outcome) for outcome in rmq_core.EventOutcome}


def test_an_event_has_the_documented_fields_and_is_frozen() -> None:
    event = rmq_core.QueueEvent(queue="q", operation=rmq_core.EventOperation.ACK, outcome=rmq_core.EventOutcome.SUCCESS)
    assert [getattr(event, name) for name in DOCUMENTED_FIELDS] == ["q", "ack", "success", *[None] * 7]
    with pytest.raises(AttributeError):
        event.queue = "other"  # type: ignore[misc]


def test_a_claimed_message_contains_what_was_stored_and_its_token() -> None:
    claimed = rmq_core.ClaimedMessage(stored_message=b"x", lease_token="t")
    assert (claimed.stored_message, claimed.lease_token) == (b"x", "t")
    assert claimed == rmq_core.ClaimedMessage(b"x", "t")
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
        rmq_core.ClaimedMessage(stored, token)  # type: ignore[arg-type]


def test_a_payload_is_text_or_bytes() -> None:
    assert isinstance("x", rmq_core.MessageData)
    assert isinstance(b"x", rmq_core.MessageData)
    assert not isinstance(1, rmq_core.MessageData)


@pytest.mark.parametrize("module", [rmq_core, rmq_core.asyncio], ids=["sync", "async"])
def test_a_gateway_without_its_abstract_methods_cannot_be_created(module: ModuleType) -> None:
    with pytest.raises(TypeError, match="abstract"):
        module.AbstractRedisGateway()
    with pytest.raises(TypeError, match="abstract"):
        rmq_core.BaseGracefulInterruptHandler()  # type: ignore[abstract]
