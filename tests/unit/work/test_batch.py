"""Batches of Airflow and of Dagster behave alike: verdicts, the end, and the settling of messages without a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_airflow.batch import TaskBatch
from rmq_core import Batch, ConfigurationError, LeaseLost
from rmq_core.work import conclude
from rmq_dagster import ClaimedBatch
from tests.unit.work.fake import FakeQueue


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


@pytest.fixture(params=[TaskBatch, ClaimedBatch])
def batch(request: pytest.FixtureRequest, queue: FakeQueue) -> Any:
    made = request.param(queue, queue.claim(max_messages=9, lease_id="work", owner="me"))
    made.in_hand = made  # used by Airflow only: the batch that the function works on
    return made


def test_a_verdict_is_settled_and_counted_at_once(batch: Batch, queue: FakeQueue) -> None:
    first, second, third = batch
    batch.ack(first)
    batch.nack(second, reason="bad")
    batch.release(third)
    batch.ack()
    assert queue.did == [("ack", [0]), ("nack", [1], "bad"), ("release", [2])]
    assert (batch.acked, batch.failed, batch.dead, batch.released) == (1, 1, 0, 1)


def test_a_verdict_that_comes_too_late_raises(batch: Batch, queue: FakeQueue) -> None:
    queue.taken = True
    with pytest.raises(LeaseLost):
        batch.ack(*batch)
    assert batch.acked == 0


def test_the_end_acks_messages_without_a_verdict_once(batch: Batch, queue: FakeQueue) -> None:
    batch.finish()
    batch.finish()
    assert queue.did == [("ack", "all")]


@pytest.mark.parametrize(
    ("terms", "did", "said"),
    [
        ({"keep_s": 60.0}, ("extend", "all", 60.0), "kept for the retry"),
        ({"keep_s": None}, ("extend", "all", None), "kept for the retry"),
        ({"retried": False}, ("nack", "all", "why"), "nacked: this was the last attempt"),
        ({"retried": False, "blameless": True}, ("release", "all"), "released"),
        ({"keep_s": 60.0, "blameless": True}, ("release", "all"), "released"),
    ],
)
def test_a_failure_keeps_the_lease_for_a_retry_or_nacks_it_but_an_interruption_releases_it(
    batch: Any, queue: FakeQueue, terms: Any, did: tuple[Any, ...], said: str
) -> None:
    assert conclude(batch, "why", **terms) == said
    assert queue.did == [did]


@pytest.mark.parametrize("terms", [{"keep_s": 60.0}, {"retried": False}, {"blameless": True}])
def test_a_settled_or_lost_lease_is_left_alone_and_one_that_redis_cannot_settle_expires(
    batch: Any, queue: FakeQueue, terms: Any
) -> None:
    queue.away = True
    assert conclude(batch, "why", **terms) == "left to expire: Redis is away"
    queue.away, queue.taken = False, True
    assert conclude(batch, "why", **terms) == "no longer held"
    batch.lease.state.settled = True
    assert conclude(batch, "why", **terms) == "no longer held"
    assert queue.did == []


@pytest.mark.parametrize("kind", [TaskBatch, ClaimedBatch])
def test_an_empty_batch_holds_nothing_and_reports_it(kind: Any, queue: FakeQueue) -> None:
    empty = kind(queue, None)
    assert (len(empty), list(empty), empty.payloads, empty.isolation, empty.queue) == (0, [], [], None, queue)
    empty.check()
    empty.ack()
    other = next(queue.messages(queue.claim(max_messages=1, lease_id="other", owner="me")))
    with pytest.raises(ConfigurationError, match="nothing of 'q' was claimed"):
        empty.ack(other)
