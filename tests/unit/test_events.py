from __future__ import annotations

import logging
from dataclasses import FrozenInstanceError

import pytest

from rmq_core.events import EventOutcome, Operation, QueueEvent, tell

EVENT = QueueEvent("q", Operation.ACK, EventOutcome.SUCCESS, claim_id="job", count=3)


def test_a_callback_gets_the_event() -> None:
    told: list[QueueEvent] = []
    tell(told.append, EVENT)
    assert told == [EVENT]
    assert (EVENT.queue, EVENT.operation, EVENT.count, EVENT.lease_id) == ("q", "ack", 3, "job")


def test_events_without_a_callback_are_dropped() -> None:
    tell(None, EVENT)


def test_a_callback_that_raises_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: QueueEvent) -> None:
        raise RuntimeError("mine")

    with caplog.at_level(logging.ERROR, "rmq"):
        tell(fail, EVENT)
    assert "on_event raised at ack of queue 'q'" in caplog.text


def test_an_interruption_in_a_callback_goes_through() -> None:
    def interrupt(_: QueueEvent) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        tell(interrupt, EVENT)


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        EVENT.count = 5  # type: ignore[misc]
