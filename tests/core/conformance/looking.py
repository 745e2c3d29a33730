"""The promises about inspecting a queue and purging it."""

from __future__ import annotations

import pytest

from rmq_core import ConfigurationError, WorkQueue
from rmq_core.protocol import AsyncWorkQueue
from tests.core.conformance.promises import promise, promise_of, refused
from tests.core.conformance.subject import Subject


@promise
def a_queue_implements_the_protocol_and_states_its_discipline_and_capabilities(subject: Subject) -> None:
    queue = getattr(subject.queue, "inner", subject.queue)
    assert isinstance(queue, WorkQueue if subject.stage.flavour == "sync" else AsyncWorkQueue)
    assert (queue.name, queue.discipline) == (subject.name, subject.discipline)
    assert queue.capabilities == type(queue).capabilities


@promise
def an_invalid_queue_name_is_refused(subject: Subject) -> None:
    for name in ("", "a{b}", "a\nb", "x" * 513):
        with pytest.raises(ConfigurationError):
            subject.open(name)


@promise
def the_backlog_counts_ready_messages_with_the_age_of_the_oldest_and_claims_nothing(subject: Subject) -> None:
    assert tuple(subject.queue.backlog())[:2] == (0, None)
    subject.publish(1, 2, 3)
    ready, age = subject.queue.backlog()[:2]
    assert ready == 3
    assert 0 <= age < 60 if subject.keeps_times else age is None
    lease = subject.queue.claim()
    assert subject.queue.backlog().ready == 2
    subject.queue.ack(lease)
    assert subject.counts() == (2, 0, 0, 0, 0)


@promise
def stats_count_ready_and_held_messages(subject: Subject) -> None:
    assert subject.queue.stats().oldest_age is None
    subject.publish(1, 2, 3)
    subject.queue.claim()
    stats = subject.queue.stats()
    assert stats[:5] == (2, 0, 1, 1, 0)
    assert 0 <= stats.oldest_age < 60 if subject.keeps_times else stats.oldest_age is None
    assert not stats.paused


@promise
def peeking_returns_the_next_messages_and_claims_none(subject: Subject) -> None:
    assert subject.queue.admin.peek() == []
    ids = subject.publish(1, 2, 3)
    assert [message.id for message in subject.queue.admin.peek(2)] == list(ids[:2])
    assert [message.payload for message in subject.queue.admin.peek(9)] == subject.payloads(1, 2, 3)
    assert subject.counts() == (3, 0, 0, 0, 0)
    assert subject.drain() == subject.payloads(1, 2, 3)


@promise
def ready_messages_can_be_purged_and_held_ones_are_left_to_their_holder(subject: Subject) -> None:
    subject.publish(1, 2, 3)
    lease = subject.queue.claim()
    assert subject.queue.admin.purge("ready") == 2
    assert subject.counts() == (0, 0, 1, 1, 0)
    assert subject.queue.ack(lease).settled == 1
    assert subject.queue.admin.purge("ready") == 0


@promise
def purging_an_unknown_part_is_refused(subject: Subject) -> None:
    subject.publish(1)
    with pytest.raises(ConfigurationError):
        subject.queue.admin.purge("everything")
    assert subject.queue.stats().ready == 1


@promise_of("delay", refused(lambda queue, _: queue.admin.purge("delayed")))
def delayed_messages_are_counted_separately_and_can_be_purged(subject: Subject) -> None:
    subject.queue.publish_many(subject.payloads(1, 2), delay=60)
    subject.publish(3)
    assert subject.counts() == (1, 2, 0, 0, 0)
    assert subject.queue.backlog().ready == 1
    assert subject.queue.admin.purge("delayed") == 2
    assert subject.counts() == (1, 0, 0, 0, 0)


@promise
def the_messages_of_a_lease_can_be_iterated_over(subject: Subject) -> None:
    subject.publish(1)
    lease = subject.queue.claim()
    assert [message.payload for message in subject.queue.messages(lease)] == subject.payloads(1)
    assert [message.ref for message in lease.messages] == [lease.message.ref]
