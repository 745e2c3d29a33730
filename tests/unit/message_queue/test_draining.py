from __future__ import annotations

import pytest

from rmq_core.compat import queue_methods
from tests.unit.message_queue.by_hand import Scripted, body, run


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
