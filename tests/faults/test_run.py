"""`queue.run` in a process that gets signals, is killed, or loses its Redis for longer than its retry budget."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from rmq_core import LeasedQueue
from rmq_core.running import _JOIN_S
from tests.faults.crew import Member
from tests.faults.patience import eventually
from tests.servers import Server

KINDS = [("sync", 1), ("sync", 2), ("async", 2)]
TRYING = "the run goes on trying"
INTERRUPTED = -signal.SIGINT  # as Python ends after a KeyboardInterrupt


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def kind(request: pytest.FixtureRequest) -> tuple[str, int]:
    """A flavour and a concurrency."""
    found: tuple[str, int] = request.param
    return found


@pytest.fixture
def runner(own_server: Server, client: redis.Redis, kind: tuple[str, int], tmp_path: Path) -> Iterator[Member]:
    """A running `queue.run`."""
    with Member("runner", kind[0], own_server.url, str(kind[1]), str(tmp_path)) as member:
        yield member


@pytest.fixture
def queue(own_server: Server, client: redis.Redis) -> Iterator[LeasedQueue]:
    with LeasedQueue(own_server.url, "q") as opened:
        yield opened


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_handlers_finish_and_leaves_the_rest(
    runner: Member, queue: LeasedQueue, kind: tuple[str, int], tmp_path: Path, number: signal.Signals
) -> None:
    queue.publish_many(["slow"] * kind[1] + ["never"])
    assert [runner.hear() for _ in range(kind[1])] == ["began slow 1"] * kind[1]
    runner.process.send_signal(number)
    time.sleep(5 * _JOIN_S)  # the main thread of a run with several looks for signals so often
    (tmp_path / "slow").touch()
    assert runner.hear() == f"{kind[1]} handled, 0 failed (0 dead), 0 lost"
    assert runner.wait() == 0
    assert queue.stats()[:4] == (1, 0, 0, 0)


def test_the_second_signal_releases_what_handlers_work_on(
    runner: Member, queue: LeasedQueue, kind: tuple[str, int]
) -> None:
    queue.publish_many(["slow"] * kind[1])
    assert [runner.hear() for _ in range(kind[1])] == ["began slow 1"] * kind[1]
    runner.process.send_signal(signal.SIGTERM)
    runner.process.send_signal(signal.SIGINT)
    assert runner.wait() == INTERRUPTED
    assert queue.stats()[:4] == (kind[1], 0, 0, 0)
    assert [message.deliveries for message in queue.admin.peek(2)] == [0] * kind[1]


def test_the_message_of_a_killed_run_returns_when_its_lease_expires(
    own_server: Server, runner: Member, queue: LeasedQueue, kind: tuple[str, int], tmp_path: Path
) -> None:
    queue.publish("slow")
    assert runner.hear() == "began slow 1"
    runner.kill()
    (tmp_path / "slow").touch()
    with Member("runner", kind[0], own_server.url, str(kind[1]), str(tmp_path)) as successor:
        assert successor.hear() == "began slow 2"
        successor.process.send_signal(signal.SIGTERM)
        assert successor.hear() == "1 handled, 0 failed (0 dead), 0 lost"


def test_a_run_goes_on_after_redis_was_away_for_longer_than_the_retry_budget(
    own_server: Server, runner: Member, queue: LeasedQueue
) -> None:
    queue.publish("quick")
    assert runner.hear() == "began quick 1"
    eventually(lambda: queue.stats()[:4] == (0, 0, 0, 0))
    own_server.kill9()
    for _ in range(3):
        hear_until(runner, TRYING)
    own_server.restart()
    queue.publish("quick")
    hear_until(runner, "began quick 1")
    runner.process.send_signal(signal.SIGTERM)
    hear_until(runner, "2 handled, 0 failed (0 dead), 0 lost")
    assert runner.wait() == 0


def hear_until(runner: Member, end: str) -> None:
    """Read what the process prints up to a line with this end."""
    while not (heard := runner.hear()).endswith(end):
        assert "handled" not in heard, "the run has ended"
