"""The submitter's side of a hand-over with a queue that is a few fields of Python."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from rmq_core import Lease, LeasedConfig, LeaseLost, LeaseOwnedByOther
from rmq_core.orchestrate import Submission
from rmq_core.reports import LeaseInfo, SettledRecord

SOON = dt.timedelta(seconds=60)


class ScriptedQueue:
    """One lease and what others did to it: the test sets `token`, `info`, `record` and the server's `clock`."""

    name = "flights"
    config = LeasedConfig(lease=6)

    def __init__(self) -> None:
        self.token: str | None = "1.a"
        self.info: LeaseInfo | None = info("run-1")
        self.record: SettledRecord | None = None
        self.calls: list[str] = []
        self.clock = dt.timedelta(0)

    @property
    def admin(self) -> ScriptedQueue:
        return self

    def server_time(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC) + self.clock

    def extend(self, lease: Lease) -> dt.datetime:
        self._fence(lease)
        return self.server_time() + SOON

    def ack(self, lease: Lease) -> None:
        self._fence(lease)
        self.calls.append("ack")
        self.token = self.info = None

    def adopt(self, lease_id: str, *, owner: str, if_owner: str, lease: float | None = None) -> Lease:
        if self.info is None:
            raise LeaseLost(lease_id)
        if self.info.owner != if_owner:
            raise LeaseOwnedByOther(lease_id)
        self.token = "9.z"
        self.calls.append(f"adopt for {lease}")
        return made(token=self.token, owner=owner)

    def nack(self, lease: Lease, *, reason: str) -> None:
        self._fence(lease)
        self.calls.append(f"nack: {reason}")

    def release(self, lease: Lease) -> None:
        self._fence(lease)
        self.calls.append("release")

    def lease_info(self, lease_id: str) -> LeaseInfo | None:
        return self.info

    def settled(self, lease_id: str) -> SettledRecord | None:
        return self.record

    def _fence(self, lease: Lease) -> None:
        if lease.token != self.token:
            raise LeaseLost(lease.id)


def info(owner: str, deadline: dt.timedelta = SOON) -> LeaseInfo:
    now = dt.datetime.now(dt.UTC)
    return LeaseInfo("run-1/step", owner, "held", 3, 0, 1, now, now + deadline, 2)


def made(token: str, owner: str = "run-1") -> Lease:
    deadline = dt.datetime.now(dt.UTC) + SOON
    return Lease("flights", "run-1/step", owner, 3, int(deadline.timestamp() * 1000), token)


@pytest.fixture
def queue() -> ScriptedQueue:
    return ScriptedQueue()


@pytest.fixture
def submission(queue: ScriptedQueue) -> Submission:
    held: Any = queue
    return Submission(held, made(token="1.a"))


def adopt_as_driver(queue: ScriptedQueue) -> None:
    queue.token = "2.b"


def record() -> SettledRecord:
    return SettledRecord("run-1/step", 3, "run-1", dt.datetime.now(dt.UTC))


def test_a_submitter_recognizes_the_adoption_by_its_own_driver_and_only_watches_from_then_on(
    queue: ScriptedQueue, submission: Submission
) -> None:
    submission.poll()
    assert not submission.adopted
    assert submission.held
    adopt_as_driver(queue)
    submission.poll()
    assert submission.adopted
    assert not submission.held


def test_a_reclaim_before_the_driver_adopted_means_the_lease_is_lost(
    queue: ScriptedQueue, submission: Submission
) -> None:
    submission.lease = replace(submission.lease, deadline_ms=0)
    submission = Submission(submission._queue, submission.lease)
    queue.token = queue.info = None
    with pytest.raises(LeaseLost):
        submission.poll()


def test_a_lease_that_disappears_after_its_deadline_was_reclaimed_even_if_the_driver_had_adopted_it(
    queue: ScriptedQueue, submission: Submission
) -> None:
    adopt_as_driver(queue)
    queue.info = info("run-1", deadline=-SOON)
    submission.poll()
    queue.info = None
    with pytest.raises(LeaseLost):
        submission.poll()


def test_a_lease_that_disappears_before_its_deadline_was_settled_by_the_driver(
    queue: ScriptedQueue, submission: Submission
) -> None:
    adopt_as_driver(queue)
    submission.poll()
    queue.info = None
    submission.poll()
    assert submission.finish() is None


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_different_clock_of_the_server_does_not_turn_a_settled_lease_into_a_lost_one(
    queue: ScriptedQueue, submission: Submission, hours: int
) -> None:
    queue.clock = dt.timedelta(hours=hours)
    submission.poll()
    queue.token = queue.info = None
    submission.poll()
    assert submission.finish() is None


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_different_clock_of_the_server_does_not_turn_a_lost_lease_into_a_settled_one(
    queue: ScriptedQueue, submission: Submission, hours: int
) -> None:
    queue.clock = dt.timedelta(hours=hours)
    submission.poll()
    queue.token = queue.info = None
    queue.clock += 2 * SOON
    with pytest.raises(LeaseLost):
        submission.poll()


@pytest.mark.parametrize("ending", ["keep", "give_up", "give_back"])
def test_a_late_end_never_affects_the_lease_of_a_running_retry(
    queue: ScriptedQueue, submission: Submission, ending: str
) -> None:
    queue.info = info("run-2")
    arguments = {"keep": (700,), "give_up": ("late",), "give_back": ()}[ending]
    assert getattr(submission, ending)(*arguments) is False
    assert queue.calls == []
