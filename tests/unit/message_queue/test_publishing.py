from __future__ import annotations

import hashlib
from typing import Any

import pytest

from rmq_core.compat import queue_methods
from rmq_core.compat.config import Deduplication
from rmq_core.errors import ConfigurationError, GatewayContractError, QueueDrainedError
from rmq_core.events import QueueEvent
from tests.unit.message_queue.by_hand import Scripted, body, run, steps_of


def by(key_of: Any) -> Deduplication:
    return Deduplication(True, key_of)


def test_the_key_of_a_message_is_a_digest_of_its_canonical_form() -> None:
    gateway = Scripted(publish_message=[True, True])
    for message in ({"b": 1, "a": 2}, {"a": 2, "b": 1}):
        assert run(queue_methods.publish(body(gateway), message)) is True
    digest = hashlib.sha256(b'{"a": 2, "b": 1}').hexdigest()
    assert {call[3] for call in gateway.calls} == {f"q::deduplication::{digest}"}


def test_without_a_key_function_the_text_is_the_key() -> None:
    gateway = Scripted(publish_message=True)
    run(queue_methods.publish(body(gateway, deduplication=by(None)), {"a": 1}))
    assert gateway.calls == [("publish_message", "q::pending", '{"a": 1}', 'q::deduplication::{"a": 1}')]


def test_a_key_function_receives_the_message_as_it_was_published() -> None:
    gateway = Scripted(publish_message=True)
    run(queue_methods.publish(body(gateway, deduplication=by(lambda message: message["id"])), {"id": "7"}))
    assert gateway.calls[0][3] == "q::deduplication::7"


def test_without_deduplication_there_is_no_key() -> None:
    gateway = Scripted(add_message=None)
    assert run(queue_methods.publish(body(gateway, deduplication=Deduplication(False, None)), "x")) is True
    assert gateway.calls == [("add_message", "q::pending", "x")]


@pytest.mark.parametrize(("answer", "event"), [(True, "publish/success"), (False, "publish_dedup_hit/skipped")])
def test_the_outcome_of_a_publish_is_returned_and_emitted(answer: object, event: str) -> None:
    told: list[QueueEvent] = []
    assert run(queue_methods.publish(body(Scripted(publish_message=answer), told=told), "x")) is answer
    assert steps_of(told) == [event]


@pytest.mark.parametrize(("key", "error"), [(7, TypeError), (None, TypeError), ("", ConfigurationError)])
def test_an_invalid_key_is_refused_before_anything_is_stored(key: Any, error: type[Exception]) -> None:
    told: list[QueueEvent] = []
    with pytest.raises(error):
        run(queue_methods.publish(body(Scripted(), deduplication=by(lambda _: key), told=told), "x"))
    assert steps_of(told) == ["publish/failure"]


def test_an_async_key_function_is_refused_and_its_coroutine_closed() -> None:
    async def later(_: object) -> str:
        return "x"

    with pytest.raises(TypeError, match=r"get_deduplication_key.*asyncio"):
        run(queue_methods.publish(body(Scripted(), deduplication=by(later)), "x"))


@pytest.mark.parametrize("error", [OSError("gateway"), KeyError("x")])
def test_a_failed_publish_emits_an_event_and_raises_the_original_error(error: Exception) -> None:
    told: list[QueueEvent] = []
    with pytest.raises(type(error)) as caught:
        run(queue_methods.publish(body(Scripted(publish_message=error), told=told), "x"))
    assert caught.value is error
    assert [(str(event.outcome), event.exception_type) for event in told] == [("failure", type(error).__name__)]


@pytest.mark.parametrize(
    ("verb", "answer", "enabled"),
    [("publish_message", None, True), ("publish_message", 1, True), ("add_message", True, False)],
)
def test_a_gateway_that_returns_something_else_breaks_its_contract(verb: str, answer: Any, enabled: object) -> None:
    with pytest.raises(GatewayContractError, match=verb):
        run(
            queue_methods.publish(
                body(Scripted(**{verb: answer}), deduplication=Deduplication(bool(enabled), None)), "x"
            )
        )


def test_a_drained_queue_publishes_nothing_and_emits_an_event() -> None:
    told: list[QueueEvent] = []
    queue = body(Scripted(), told=told)
    queue.draining = True
    with pytest.raises(QueueDrainedError, match="queue is drained") as caught:
        run(queue_methods.publish(queue, "x"))
    assert (caught.value.queue, caught.value.operation) == ("q", "publish")
    assert steps_of(told) == ["publish/failure"]
