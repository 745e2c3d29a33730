"""The promises about ack, nack, release and extend."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from rmq_core import ConfigurationError, Lease, LeaseLost, RedisMessageQueueError
from rmq_core.reports import Outcome
from tests.core.conformance.kits import LONG_S, SHORT_S
from tests.core.conformance.promises import promise, promise_of, refused
from tests.core.conformance.subject import Subject


@promise
def an_acked_message_is_gone(subject: Subject) -> None:
    subject.publish(1)
    report = subject.queue.ack(subject.queue.claim())
    assert (report.settled, report.dead) == (1, 0)
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise
def a_released_message_is_delivered_again_without_a_counted_delivery(subject: Subject) -> None:
    worker, lease = subject.held(1)
    assert worker.release(lease).settled == 1
    message = subject.queue.claim().message
    assert (message.id, message.payload, message.deliveries) == (lease.message.id, subject.payload(1), 1)


@promise
def a_nacked_message_is_delivered_again(subject: Subject) -> None:
    worker, lease = subject.held(1)
    report = worker.nack(lease, reason="no disk")
    assert (report.settled, report.dead) == (1, 0)
    message = subject.queue.claim(wait=10).message
    assert (message.id, message.payload) == (lease.message.id, subject.payload(1))


@promise
def messages_with_equal_payloads_are_settled_separately(subject: Subject) -> None:
    subject.publish(1, 1)
    first, second = subject.queue.claim(), subject.queue.claim()
    subject.queue.ack(second)
    assert subject.queue.stats().leased == 1
    subject.queue.release(first)
    assert subject.drain() == subject.payloads(1)


@promise
def a_settled_message_cannot_be_settled_again(subject: Subject) -> None:
    for first in ("ack", "nack", "release"):
        subject.publish(1)
        lease = subject.queue.claim()
        getattr(subject.queue, first)(lease)
        for second in ("ack", "nack", "release"):
            with pytest.raises(LeaseLost):
                getattr(subject.queue, second)(lease)
        subject.drain()
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise
def a_lease_that_was_read_from_json_lacks_the_right_to_settle(subject: Subject) -> None:
    subject.publish(1)
    lease = subject.queue.claim()
    described = Lease.from_json(lease.to_json())
    for settle in (subject.queue.ack, subject.queue.nack, subject.queue.release):
        with pytest.raises(ConfigurationError, match="token"):
            settle(described)
    assert subject.queue.ack(lease).settled == 1


@promise
def a_lease_of_one_queue_settles_nothing_in_another(subject: Subject) -> None:
    other = subject.open(f"{subject.name}-other")
    subject.publish(1)
    other.publish(subject.payload(1))
    mine, lease = subject.queue.claim(), other.claim()
    for settle in (subject.queue.ack, subject.queue.nack, subject.queue.release):
        with pytest.raises(RedisMessageQueueError):
            settle(lease)
    assert subject.counts() == tuple(other.stats()[:5]) == (0, 0, 1, 1, 0)
    assert subject.queue.ack(mine).settled == other.ack(lease).settled == 1


def the_token_is_not_asked_for(subject: Subject) -> None:
    """Any process that knows the message may settle it, once."""
    subject.publish(1)
    lease = subject.queue.claim()
    assert subject.queue.ack(replace(lease, token="0")).settled == 1
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise_of("fenced", the_token_is_not_asked_for)
def a_token_that_was_made_up_settles_nothing(subject: Subject) -> None:
    subject.publish(1)
    lease = subject.queue.claim()
    forged = replace(lease, token=lease.token[:-1] + ("0" if lease.token[-1] != "0" else "1"))
    for settle in (subject.queue.ack, subject.queue.nack, subject.queue.release):
        with pytest.raises(LeaseLost):
            settle(forged)
    assert subject.counts() == (0, 0, 1, 1, 0)


@promise_of("delay", refused(lambda queue, lease: queue.nack(lease, delay=1)))
def a_nack_may_delay_the_next_delivery(subject: Subject) -> None:
    worker, lease = subject.held(1)
    worker.nack(lease, delay=60)
    assert subject.queue.claim() is None
    worker, lease = subject.held(2)
    worker.nack(lease, delay=SHORT_S)
    assert subject.queue.claim(wait=10).message.payload == subject.payload(2)
    assert subject.queue.stats()[:3] == (0, 1, 1)


@promise_of("partial_settle", refused(lambda queue, lease: queue.ack(lease, lease.messages)))
def messages_of_a_lease_are_settled_one_by_one(subject: Subject) -> None:
    worker, lease = subject.held(1, 2, 3, 4)
    first, second, third, fourth = lease.messages
    assert worker.ack(lease, [first]).outcomes == (Outcome.SETTLED,)
    assert worker.nack(lease, [second]).settled == 1
    assert worker.release(lease, [third]).settled == 1
    assert [message.payload for message in worker.messages(lease)] == subject.payloads(4)
    assert worker.ack(lease, [fourth.ref]).settled == 1
    assert sorted(map(str, subject.drain())) == sorted(map(str, subject.payloads(2, 3)))
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise_of("partial_settle", refused(lambda queue, lease: queue.ack(lease, lease.messages)))
def acking_a_lease_acks_its_unsettled_messages(subject: Subject) -> None:
    worker, lease = subject.held(1, 2, 3)
    worker.release(lease, [lease.messages[1]])
    assert worker.ack(lease).settled == 2
    assert subject.drain() == subject.payloads(2)


@promise_of("partial_settle", refused(lambda queue, lease: queue.ack(lease, lease.messages)))
def a_message_that_is_settled_already_is_reported_and_not_settled_twice(subject: Subject) -> None:
    worker, lease = subject.held(1, 2)
    worker.ack(lease, [lease.messages[0]])
    report = worker.ack(lease, lease.messages)
    assert report.outcomes == (Outcome.SETTLED_BEFORE, Outcome.SETTLED)
    assert report.settled == 1


@promise_of("extend", refused(lambda queue, lease: queue.extend(lease, 100)))
def a_holder_can_extend_its_lease(subject: Subject) -> None:
    worker, lease = subject.held(1, lease_s=60)
    later = worker.extend(lease, LONG_S)
    assert (later - lease.deadline).total_seconds() > 400
    # Streams keep how long a message has been held, in whole milliseconds, and not when its lease ends.
    assert worker.extend(lease, 1) >= later - timedelta(milliseconds=2)
    assert worker.ack(lease).settled == 1
    with pytest.raises(LeaseLost):
        worker.extend(lease, LONG_S)
