"""Tests of the benchmark against redis-message-queue: its configuration of RMQ, and its report of missing peers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from benchmarks import message_queue
from benchmarks.message_queue_peers import Missing
from benchmarks.message_queue_worker import Worker
from benchmarks.report import Machine, render


@pytest.fixture
def worker(redis_url: str) -> Iterator[Worker]:
    made = Worker("rmq_core", redis.connection.parse_url(redis_url)["port"])
    yield made
    made.client.close()


def test_it_publishes_and_processes(worker: Worker) -> None:
    worker.publish(3)
    assert worker.plain.stats().pending == 3
    worker.process(3)
    assert worker.plain.stats()[:2] == (0, 0)


def test_it_runs_complete_cycles(worker: Worker) -> None:
    worker.publish_unique(2)
    worker.cycle(2)
    assert worker.unique.stats().pending == 2


def test_it_holds_messages(worker: Worker) -> None:
    worker.publish(3)
    worker.hold(2)
    assert worker.plain.stats()[:2] == (1, 2)


def test_it_is_woken(worker: Worker) -> None:
    assert worker.ring(1) < worker.wait(1)


def test_the_report_states_when_nothing_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise Missing("no Python 3.12 was found")

    monkeypatch.setattr(message_queue, "interpreter", missing)
    text = render(message_queue.measure(0, 1, 1), message_queue.TARGETS, {}, Machine(["7.0"]))
    assert "Not measured: no Python 3.12 was found." in text
    assert "0 of 7 targets are met." in text
