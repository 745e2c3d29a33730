from __future__ import annotations

from typing import Any

import pytest

from rmq_core.compat import queue_methods
from rmq_core.compat.gateway_methods import giving_up
from rmq_core.compat.state import Inside
from rmq_core.errors import ConfigurationError
from tests.unit.message_queue.by_hand import Clock, Scripted, body, run


def test_an_idle_queue_is_drained_at_once() -> None:
    queue = body(Scripted())
    assert run(queue_methods.drain(queue, None)) is True
    assert (queue.draining, queue.drained) == (True, True)


def test_draining_waits_for_a_publish_in_another_thread() -> None:
    clock = Clock()
    queue = body(Scripted(), clock=clock)
    queue.publishing.append(2)
    clock.meanwhile = [lambda: None, queue.publishing.clear]
    assert run(queue_methods.drain(queue, None)) is True
    assert len(clock.pauses) == 2


def test_draining_does_not_wait_for_a_call_that_its_own_thread_has_interrupted() -> None:
    queue = body(Scripted())
    queue.publishing.append(1)
    queue.claiming.append(1)
    assert run(queue_methods.drain(queue, None)) is True


@pytest.mark.parametrize("place", ["publishing", "claiming"])
def test_a_drain_that_times_out_returns_false_and_the_queue_still_refuses_work(place: str) -> None:
    queue = body(Scripted())
    getattr(queue, place).append(2)
    assert run(queue_methods.drain(queue, 0.001)) is False
    assert (queue.draining, queue.drained) == (True, False)
    getattr(queue, place).clear()
    assert run(queue_methods.drain(queue, 0.001)) is True


def test_a_drain_with_no_timeout_only_returns_the_state() -> None:
    queue = body(Scripted())
    queue.claiming.append(2)
    assert run(queue_methods.drain(queue, 0)) is True
    queue.publishing.append(2)
    assert run(queue_methods.drain(queue, 0)) is False


@pytest.mark.parametrize(
    ("timeout", "error"),
    [("1", TypeError), (True, TypeError), (-1, ConfigurationError), (float("nan"), ConfigurationError)],
)
def test_an_invalid_timeout_is_refused_and_nothing_is_drained(timeout: Any, error: type[Exception]) -> None:
    queue = body(Scripted())
    with pytest.raises(error, match="timeout"):
        run(queue_methods.drain(queue, timeout))
    assert not queue.draining


def test_a_waiting_call_is_notified_when_the_queue_is_drained() -> None:
    queue = body(Scripted())
    with Inside(queue, queue.claiming):
        over = giving_up.get()
        assert over is not None
        assert not over()
        queue.draining = True
        assert over()
    assert giving_up.get() is None
    assert queue.claiming == []
