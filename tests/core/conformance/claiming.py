"""The promises about claiming."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rmq_core import ConfigurationError, LeaseLost, RedisMessageQueueError
from rmq_core.envelope.arrow import batch_of
from rmq_core.messages import MESSAGE_FIELDS
from tests.core.conformance.kits import LONG_S, SHORT_S
from tests.core.conformance.promises import promise, promise_of, refused
from tests.core.conformance.subject import Subject
from tests.core.leases import PATIENCE_S, woken_soon

LARGE = 4100
"""Return the value of a column as a message has it."""


@promise
def ready_messages_are_claimed_in_the_order_of_their_publishing(subject: Subject) -> None:
    subject.publish(1, 2, 3)
    subject.queue.publish(subject.payload(4))
    assert subject.drain() == subject.payloads(1, 2, 3, 4)


@promise
def a_claim_and_a_read_of_columns_return_each_field_of_a_message(subject: Subject) -> None:
    subject.publish(1)
    lease = subject.queue.claim()
    (message,) = subject.queue.messages(lease)
    assert {field.name: type(field.of(message)) for field in MESSAGE_FIELDS} == {
        field.name: field.type for field in MESSAGE_FIELDS
    }
    (row,) = batch_of(lease.envelopes, [0], lease.takeovers + 1, lease.id, "q").to_pylist()
    for field in MESSAGE_FIELDS:
        assert field.of(message) == row["message_id" if field.name == "id" else field.name]


@promise
def an_empty_queue_has_nothing_to_claim(subject: Subject) -> None:
    assert subject.queue.claim() is None
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise
def no_message_is_delivered_to_two_workers(subject: Subject) -> None:
    subject.publish(*range(24))

    def work(queue: Any) -> list[str]:
        taken = []
        while lease := queue.claim():
            taken.append(lease.message.id)
            queue.ack(lease)
        return taken

    other = subject.open()
    workers = [subject.in_background(work, queue) for queue in (subject.queue, subject.queue, other, other)]
    taken = [message for worker in workers for message in worker.result(PATIENCE_S)]
    assert len(taken) == len({*taken}) == 24
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise
def held_messages_are_not_claimed_again(subject: Subject) -> None:
    subject.publish(1)
    lease = subject.queue.claim()
    assert subject.open().claim() is None
    assert subject.queue.claim() is None
    assert subject.queue.ack(lease).settled == 1


@promise
def a_waiting_claim_is_woken_by_a_message(subject: Subject) -> None:
    assert woken_soon(lambda: _woken_after(subject, lambda: subject.publish(1)))


def _woken_after(subject: Subject, make_ready: Callable[[], Any]) -> float:
    """Return how long a waiting claim takes to get message 1 once it is ready; ack it."""
    worker = subject.open()
    waiting = subject.in_background(worker.claim, wait=PATIENCE_S)
    time.sleep(SHORT_S)
    make_ready()
    began = time.monotonic()
    lease = waiting.result(PATIENCE_S)
    taken_s = time.monotonic() - began
    assert lease.message.payload == subject.payload(1)
    assert worker.ack(lease).settled == 1
    return taken_s


@promise
def a_waiting_claim_is_woken_by_a_released_message(subject: Subject) -> None:
    def attempt() -> float:
        worker, lease = subject.held(1)
        return _woken_after(subject, lambda: worker.release(lease))

    assert woken_soon(attempt)


@promise
def a_waiting_claim_returns_nothing_when_its_time_is_over(subject: Subject) -> None:
    began = time.monotonic()
    assert subject.queue.claim(wait=SHORT_S) is None
    assert time.monotonic() - began > SHORT_S / 2


@promise
def a_lease_states_its_queue_its_owner_and_its_deadline(subject: Subject) -> None:
    subject.publish(1)
    lease = subject.open().claim(owner="worker 7")
    assert (lease.queue, lease.owner, lease.count) == (subject.name, "worker 7", 1)
    assert LONG_S - 60 < (lease.deadline - datetime.now(UTC)).total_seconds() < LONG_S + 60
    assert lease.message.lease_id == lease.id
    assert lease.token not in repr(lease)


@promise_of("extend", refused(lambda queue, _: queue.claim(lease=200)))
def a_claim_may_set_the_duration_of_its_lease(subject: Subject) -> None:
    subject.publish(1, 2)
    lease = subject.queue.claim(lease=timedelta(seconds=200))
    assert 140 < (lease.deadline - datetime.now(UTC)).total_seconds() < 260
    with pytest.raises(ConfigurationError):
        subject.queue.claim(lease=-1)


@promise
def a_claim_with_an_invalid_argument_is_refused(subject: Subject) -> None:
    subject.publish(1)
    for wrong in ({"max_messages": 0}, {"max_messages": 1.5}, {"wait": -1}, {"owner": "a\nb"}):
        with pytest.raises(ConfigurationError):
            subject.queue.claim(**wrong)
    assert subject.queue.stats().ready == 1


@promise
def queues_with_different_names_share_nothing(subject: Subject) -> None:
    other = subject.open(f"{subject.name}-other")
    subject.publish(1)
    assert other.claim() is None
    other.publish(subject.payload(2))
    assert subject.drain() == subject.payloads(1)
    assert other.claim().message.payload == subject.payload(2)


@promise_of("batch", refused(lambda queue, _: queue.claim(max_messages=2)))
def a_lease_holds_as_many_messages_as_are_requested_and_ready(subject: Subject) -> None:
    subject.publish(1, 2, 3, 4, 5)
    first, second = subject.queue.claim(max_messages=3), subject.queue.claim(max_messages=3)
    assert [message.payload for message in first.messages] == subject.payloads(1, 2, 3)
    assert [message.payload for message in second.messages] == subject.payloads(4, 5)
    assert subject.counts()[:3] == (0, 0, 5)
    assert (subject.queue.ack(first).settled, subject.queue.ack(second).settled) == (3, 2)
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise_of("large_leases", refused(lambda queue, _: queue.claim(max_messages=LARGE)))
def a_lease_may_hold_more_than_four_thousand_messages(subject: Subject) -> None:
    ids = subject.publish(*range(LARGE + 1))
    lease = subject.queue.claim(max_messages=LARGE)
    assert lease.count == LARGE
    assert [message.id for message in subject.queue.messages(lease)] == list(ids[:LARGE])
    assert subject.queue.ack(lease).settled == LARGE
    assert subject.counts() == (1, 0, 0, 0, 0)


@promise_of("takeover", refused(lambda queue, _: queue.claim(lease_id="job")))
def claiming_a_lease_id_again_takes_its_messages_over_and_fences_the_former_holder_off(subject: Subject) -> None:
    subject.publish(1, 2)
    former, successor = subject.queue, subject.open()
    old = former.claim(lease_id="job", owner="try 1")
    new = successor.claim(lease_id="job", owner="try 2")
    assert (new.id, new.message.id, new.message.deliveries) == (old.id, old.message.id, 2)
    for settle in (former.ack, former.nack, former.release, former.extend):
        with pytest.raises(LeaseLost):
            settle(old)
    assert successor.ack(new).settled == 1
    assert subject.counts() == (1, 0, 0, 0, 0)


@promise_of("takeover", refused(lambda queue, _: queue.claim(lease_id="job")))
def a_lease_id_that_was_acked_as_a_whole_cannot_be_claimed_again(subject: Subject) -> None:
    subject.publish(1, 2)
    subject.queue.ack(subject.queue.claim(lease_id="job"))
    with pytest.raises(RedisMessageQueueError, match="settled"):
        subject.open().claim(lease_id="job")
    assert subject.queue.stats().ready == 1
