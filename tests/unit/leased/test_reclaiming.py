from __future__ import annotations

import pytest

from rmq_core.discipline.leased.operations.reclaiming import reclaim
from rmq_core.events import Operation, QueueEvent
from tests.unit.leased.by_hand import asked, counted, drive, engine, given, result, scripts


@pytest.mark.parametrize("reply", [b"live", b"superseded"])
def test_an_unexpired_lease_is_left_alone(reply: bytes) -> None:
    events: list[QueueEvent] = []
    assert result(reclaim(engine(on_event=events.append), "job"), reply) == 0
    assert events == []


def test_an_expired_lease_is_requeued_in_chunks_under_the_token_of_the_first() -> None:
    events: list[QueueEvent] = []
    moved, wants = drive(
        reclaim(engine(on_event=events.append), "job"),
        [b"returned 4000 5000 9.x", b"returned 4000 1000 9.x", b"returned 1000 0 9.x"],
    )
    assert moved == 9000
    assert scripts(wants) == ["reclaim"] * 3
    assert [want.given["token"] for want in wants] == ["", "9.x", "9.x"]
    assert len({want.given["nonce"] for want in wants}) == 3
    assert counted(events) == [(Operation.RECLAIM, 4000), (Operation.RECLAIM, 4000), (Operation.RECLAIM, 1000)]


def test_a_reclaim_that_another_client_finishes_ends_with_what_was_moved() -> None:
    assert result(reclaim(engine(), "job"), b"returned 4000 1000 9.x", b"live") == 4000


def test_each_dead_letter_emits_an_event() -> None:
    events: list[QueueEvent] = []
    assert result(reclaim(engine(on_event=events.append), "job"), b"returned 3 0 9.x m1 m2") == 3
    assert counted(events) == [(Operation.RECLAIM, 3), (Operation.DEAD, 1), (Operation.DEAD, 1)]
    assert [(event.lease_id, event.message_id, event.reason) for event in events] == [
        ("job", None, None),
        ("job", "m1", "expired"),
        ("job", "m2", "expired"),
    ]


def test_the_limits_of_the_queue_are_sent_along() -> None:
    (call,) = asked(reclaim(engine(max_deliveries=3, max_dead=7, failed_log=5), "job"), b"live")
    assert given(call, "lease_id", "max_deliveries", "max_dead", "failed_cap", "if_used_up") == ["job", 3, 7, 5, "0"]
    (call,) = asked(reclaim(engine(max_deliveries=None), "job", used_up=True), b"live")
    assert (call.given["max_deliveries"], call.given["if_used_up"]) == (0, "1")
