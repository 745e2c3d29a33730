"""The table of situations would show a loss, a stale settle, a duplicate and a message that is stuck."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from rmq_core import LeasedQueue
from tests.faults.situations import situations
from tests.faults.situations.situations import DOUBLED, LOST, STALE, STUCK, Pipeline, Play, Scale
from tests.faults.situations.work import BY, CONFIG, POISON

COUNTS = (LOST, STALE, STUCK, DOUBLED, "worked on again", "dead letters", "found nothing", "left open")


@pytest.fixture
def play(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """An orchestrator that does nothing, and ten messages."""
    monkeypatch.setattr(situations, "PATIENCE_S", 0)
    monkeypatch.setattr(situations, "QUIET_S", 0)
    pipeline = SimpleNamespace(
        redis=SimpleNamespace(url=redis_url),
        ledgers=tmp_path,
        begin=lambda: None,
        open_runs=lambda _: 0,
        runs=lambda _: 1,
        write_off=lambda: None,
    )
    made = Play(cast("Pipeline", pipeline), "counted", Scale(1, 1))
    made.publish(9)
    made.publish(1, POISON)
    return made


def work(play: Play, messages: int, **nack: Any) -> None:
    """Work on messages as the runs do, and ack or nack them."""
    with LeasedQueue(play.pipeline.redis.url, "counted", CONFIG) as queue:
        for message in (lease := queue.claim(max_messages=messages)).messages:  # type: ignore[union-attr]  # they are there
            play.ledger.have_effect(1, message.id, str(message.payload))
            if not nack:
                play.ledger.write("acked", 1, [message.id])
        queue.nack(lease, **nack) if nack else queue.ack(lease)  # type: ignore[arg-type]


def counted(play: Play) -> dict[str, float]:
    """Return the counts that are not 0."""
    found = play.count()
    return {name: found[name] for name in COUNTS if found[name]}


def test_messages_that_nobody_worked_on_are_stuck_and_not_lost(play: Play) -> None:
    work(play, 4)
    assert counted(play) == {STUCK: 6}


def test_a_message_that_left_the_queue_without_an_effect_is_lost(play: Play) -> None:
    work(play, 8)
    play.queue.admin.purge("ready")
    assert counted(play) == {LOST: 2}


def test_a_dead_letter_that_is_not_poison_is_lost(play: Play) -> None:
    for _ in range(CONFIG.max_deliveries):
        work(play, 1, reason="poison or not")
    work(play, 9)
    assert counted(play) == {LOST: 1, "dead letters": 1, "worked on again": 4}


def test_a_second_ack_is_stale_and_a_second_delivery_is_counted(play: Play) -> None:
    work(play, 8)
    (message_id, payload), *_ = play.ledger.effects().items()
    play.ledger.have_effect(2, message_id, payload)
    play.ledger.write("acked", 2, [message_id])
    play.ledger.have_effect(1, "another-id", payload)
    found = counted(play)
    assert (found[STALE], found["worked on again"], found[DOUBLED]) == (2, 1, 1)


def test_only_living_processes_that_have_worked_are_at_work(play: Play) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        started = psutil.Process(process.pid).create_time()
        play.ledger.write(BY, process.pid, [repr(started - 1)])  # an earlier process with the same number
        assert play.at_work() == []
        play.ledger.write(BY, process.pid, [repr(started)])
        assert play.at_work() == [process.pid]
        process.kill()
        process.wait()
        assert play.at_work() == []
