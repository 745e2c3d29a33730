from __future__ import annotations

import hashlib
from typing import Any

import pytest

from rmq_core.compat import queue_methods
from rmq_core.compat.config import Deduplication
from rmq_core.errors import ConfigurationError
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
