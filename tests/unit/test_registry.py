from __future__ import annotations

import pytest

from rmq_core import QueueFull, QueueUnavailable
from rmq_core.exchange import Command
from rmq_core.queue.keys import queues_of
from rmq_core.queue.registry import register
from tests.unit.leased.by_hand import drive, result


def test_a_queue_is_written_down_with_its_discipline() -> None:
    told, wants = drive(register("żółw", "streams"), [1, 0])
    assert told is True
    assert wants == [Command(("SADD", b"rmq:queues", "żółw")), Command(("SADD", b"rmq:queues:streams", "żółw"))]
    assert queues_of("streams") == b"rmq:queues:streams"


def test_a_full_server_is_asked_again_by_the_next_call() -> None:
    assert result(register("q", "streams"), QueueFull("full")) is False


def test_any_other_failure_is_the_callers() -> None:
    with pytest.raises(QueueUnavailable):
        result(register("q", "streams"), QueueUnavailable("gone"))
