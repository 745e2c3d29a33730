"""The promises about workers that vanish and messages that fail repeatedly."""

from __future__ import annotations

import contextlib

import pytest

from rmq_core import LeaseLost
from tests.core.conformance.kits import DELIVERIES, LONG_S, SHORT_S
from tests.core.conformance.promises import promise, promise_of, refused
from tests.core.conformance.subject import Subject

_dead_letters = refused(
    lambda queue, _: queue.admin.dead_letters(),
    lambda queue, _: queue.admin.redrive(),
    lambda queue, _: queue.admin.purge("dead"),
)


def needs_a_reaper(subject: Subject) -> None:
    """An expired message stays where it is, counted as leased, until it is reclaimed."""
    _, lease = subject.held(1, lease_s=SHORT_S)
    subject.expire()
    assert subject.queue.claim() is None
    assert subject.queue.stats().leased == 1
    assert subject.recovered().message.id == lease.message.id


def a_late_settle_counts(subject: Subject) -> None:
    """A late holder settles what another holds: the work is done for both, and no error is raised."""
    worker, lease = subject.held(1, lease_s=SHORT_S)
    subject.expire()
    again = subject.recovered()
    assert worker.ack(lease).settled == 1
    assert subject.counts()[0] == 0
    with contextlib.suppress(LeaseLost):
        subject.queue.ack(again)
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise
def messages_of_a_vanished_worker_are_delivered_again(subject: Subject) -> None:
    _, lease = subject.held(1, lease_s=SHORT_S)
    subject.expire()
    again = subject.recovered()
    assert (again.message.id, again.message.payload) == (lease.message.id, subject.payload(1))
    assert subject.queue.ack(again).settled == 1
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise_of("batch", refused(lambda queue, _: queue.claim(max_messages=2)))
def messages_of_a_vanished_worker_keep_their_order(subject: Subject) -> None:
    subject.held(1, 2, 3, lease_s=SHORT_S)
    subject.expire()
    found = [subject.recovered(), subject.queue.claim(), subject.queue.claim()]
    assert [lease.message.payload for lease in found] == subject.payloads(1, 2, 3)


@promise_of("auto_reclaim", needs_a_reaper)
def claiming_reclaims_expired_messages(subject: Subject) -> None:
    _, lease = subject.held(1, lease_s=SHORT_S)
    subject.expire()
    assert subject.queue.claim().message.id == lease.message.id


@promise_of("fenced", a_late_settle_counts)
def a_holder_whose_messages_were_given_to_another_settles_nothing(subject: Subject) -> None:
    worker, lease = subject.held(1, lease_s=SHORT_S)
    subject.expire()
    again = subject.recovered()
    before = subject.counts()
    for settle in (worker.ack, worker.nack, worker.release):
        with pytest.raises(LeaseLost):
            settle(lease)
    assert subject.counts() == before == (0, 0, 1, 1, 0)
    assert subject.queue.ack(again).settled == 1


@promise_of("extend", refused(lambda queue, lease: queue.extend(lease, 100)))
def a_lease_that_was_extended_in_time_is_kept(subject: Subject) -> None:
    worker, lease = subject.held(1, lease_s=LONG_S // 2)
    worker.extend(lease, LONG_S)
    subject.let_pass(LONG_S // 2)
    subject.held(2, lease_s=SHORT_S)
    subject.expire()
    assert subject.recovered().message.payload == subject.payload(2)
    assert worker.ack(lease).settled == 1


@promise_of("dead_letters", _dead_letters)
def a_message_that_fails_too_often_becomes_a_dead_letter_and_is_no_longer_claimed(subject: Subject) -> None:
    subject.publish(1)
    for delivery in range(1, DELIVERIES + 1):
        lease = subject.queue.claim(wait=10)
        assert lease.message.deliveries == delivery
        report = subject.queue.nack(lease, reason="no disk")
        assert (report.settled, report.dead) == (1, delivery == DELIVERIES)
    assert subject.queue.claim() is None
    assert subject.counts() == (0, 0, 0, 0, 1)
    assert [message.payload for message in subject.queue.admin.dead_letters()] == subject.payloads(1)


@promise_of("dead_letters", _dead_letters)
def a_message_whose_workers_keep_vanishing_becomes_a_dead_letter(subject: Subject) -> None:
    subject.publish(1)
    for _ in range(DELIVERIES):
        _, lease = subject.claimed(1, SHORT_S)
        assert lease.message.payload == subject.payload(1)
        subject.expire()
        subject.recover()
        subject.queue.backlog()
    assert subject.queue.claim() is None
    assert subject.counts() == (0, 0, 0, 0, 1)


def bury(subject: Subject, *numbers: int) -> None:
    """Make dead letters, one after the other."""
    for number in numbers:
        subject.publish(number)
        for _ in range(DELIVERIES):
            subject.queue.nack(subject.queue.claim(wait=10))


@promise_of("dead_letters", _dead_letters)
def dead_letters_are_listed_newest_first_and_stay_where_they_are(subject: Subject) -> None:
    bury(subject, 1, 2, 3)
    assert [message.payload for message in subject.queue.admin.dead_letters(2)] == subject.payloads(3, 2)
    assert subject.counts() == (0, 0, 0, 0, 3)


@promise_of("dead_letters", _dead_letters)
def redriven_dead_letters_are_ready_with_a_fresh_budget(subject: Subject) -> None:
    bury(subject, 1, 2, 3)
    assert subject.queue.admin.redrive(1) == 1
    assert subject.counts() == (1, 0, 0, 0, 2)
    assert subject.queue.admin.redrive() == 2
    assert subject.queue.admin.redrive() == 0
    leases = [subject.queue.claim() for _ in range(3)]
    assert [lease.message.payload for lease in leases] == subject.payloads(1, 2, 3)
    assert {lease.message.deliveries for lease in leases} == {1}
    assert [subject.queue.nack(lease).dead for lease in leases] == [0, 0, 0]


@promise_of("dead_letters", _dead_letters)
def dead_letters_can_be_purged(subject: Subject) -> None:
    bury(subject, 1, 2)
    subject.publish(3)
    assert subject.queue.admin.purge("dead") == 2
    assert subject.queue.admin.dead_letters() == []
    assert subject.drain() == subject.payloads(3)
