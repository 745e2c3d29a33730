"""A message from its claim to its end, over a scripted gateway."""

from __future__ import annotations

import asyncio

import pytest

from rmq_core.compat import consuming
from rmq_core.events import QueueEvent
from tests.unit.message_queue.by_hand import CLAIMED, Clock, Scripted, body, run, steps_of


def test_a_drained_queue_calls_no_gateway_and_does_not_spin() -> None:
    clock = Clock()
    drained = body(Scripted(), clock=clock)
    drained.draining = True
    assert run(consuming.claim(drained)) is None
    assert sum(clock.pauses) > 0


def test_a_success_that_comes_too_late_warns() -> None:
    told: list[QueueEvent] = []
    queue = body(Scripted(wait_for_message_and_move=CLAIMED, remove_message=False), told=told)
    with pytest.warns(RuntimeWarning, match="lease"):
        run(consuming.succeed(queue, run(consuming.claim(queue)), 0))
    assert steps_of(told)[1:] == ["ack/skipped", "stale_lease_ack/skipped"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_interrupt_during_the_cleanup_after_a_failure_does_not_hide_the_failure(
    interruption: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    queue, error = body(Scripted(wait_for_message_and_move=CLAIMED, remove_message=interruption())), ZeroDivisionError()
    with pytest.raises(interruption) as caught:
        run(consuming.fail(queue, run(consuming.claim(queue)), error, 0))
    assert caught.value.__cause__ is error
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_an_interruption_in_a_callback_goes_through() -> None:
    def interrupt(_: QueueEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(consuming.claim(body(Scripted(wait_for_message_and_move=CLAIMED), on_event=interrupt)))
