"""Limits on payloads, strictness about what JSON would change, damaged entries; all of it is off by default."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import pytest

import rmq_core
from rmq_core import ConfigurationError
from rmq_core.interrupt_handler import EventDrivenInterruptHandler
from tests.core.redis_message_queue.behind import waiting
from tests.core.redis_message_queue.gateways import foreign
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.worlds import World

TOO_LARGE: Any = rmq_core.errors.PayloadTooLarge
TOO_DEEP: Any = rmq_core.errors.PayloadTooDeep


@pytest.mark.parametrize(
    ("message", "size"), [("x" * 10, 10), ("é" * 5, 10), ({"a": 12}, 9)], ids=["text", "é", "dict"]
)
def test_a_payload_may_have_as_many_bytes_as_allowed_and_no_more(world: World, message: Any, size: int) -> None:
    assert world.queue(max_payload_bytes=size).publish(message)
    with pytest.raises(TOO_LARGE):
        world.queue(max_payload_bytes=size - 1, deduplication=False).publish(message)
    assert len(waiting(world)) == 1


@pytest.mark.parametrize(("message", "depth"), [({"a": 1}, 1), ({"a": {"b": 1}}, 2), ({"a": [[1]]}, 3)])
def test_a_payload_may_be_as_deep_as_allowed_and_no_deeper(world: World, message: Any, depth: int) -> None:
    assert world.queue(max_payload_depth=depth).publish(message)
    with pytest.raises(TOO_DEEP):
        world.queue(max_payload_depth=depth).publish({"deeper": message})
    assert len(waiting(world)) == 1


@pytest.mark.parametrize("limit", ["max_payload_bytes", "max_payload_depth"])
@pytest.mark.parametrize(("wrong", "error"), [(True, TypeError), ("9", TypeError), (0, ConfigurationError)])
def test_a_limit_is_a_positive_whole_number(no_world: World, limit: str, wrong: object, error: Any) -> None:
    with pytest.raises(error, match=limit):
        no_world.queue(**{limit: wrong})


@pytest.mark.parametrize(
    ("value", "kind"),
    [((1, 2), "tuple"), ({1}, "set"), (b"x", "bytes"), (dt.date(2024, 1, 1), "date")],
    ids=["tuple", "set", "bytes", "date"],
)
def test_strict_payloads_refuse_what_json_would_change_and_name_the_place(
    one_world: World, value: object, kind: str
) -> None:
    queue = one_world.queue(strict_payload_types=True)
    with pytest.raises(TypeError, match=kind) as caught:
        queue.publish({"rows": [{"cell": value}]})
    assert "rows" in str(caught.value)
    assert "cell" in str(caught.value)
    assert waiting(one_world) == []


def test_a_refused_payload_emits_an_event(one_world: World) -> None:
    recorder = Recorder(one_world)
    queue = one_world.queue(on_event=recorder.callback, max_payload_bytes=1)
    with pytest.raises(TOO_LARGE) as caught:
        queue.publish("xx")
    assert recorder.steps == ["publish/failure"]
    assert recorder.events[0].error is caught.value


@pytest.mark.parametrize("damaged", ["\x1eRMQ1:{", '\x1eRMQ1:{"id": "1"}', "\x1eRMQ1:[]"])
def test_a_damaged_envelope_of_a_foreign_gateway_is_refused_when_strict(no_world: World, damaged: str) -> None:
    gateway, shelf = foreign(no_world)
    queue = no_world.queue(gateway=gateway, strict_envelope_decoding=True)
    shelf.lists["q::pending"].append(damaged)
    with pytest.raises(rmq_core.MalformedMessage), queue.process_message():
        pytest.fail("the block began")


def test_an_event_driven_handler_follows_its_event(world: World) -> None:
    stop = threading.Event()
    handler = EventDrivenInterruptHandler(stop)
    queue = world.queue(interrupt=handler)
    queue.publish("x")
    assert not handler.is_interrupted()
    stop.set()
    assert handler.is_interrupted()
    with queue.process_message() as message:
        assert message is None
    assert waiting(world) == ["x"]
