"""The promises about publishing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rmq_core import RedisMessageQueueError
from tests.core.conformance.kits import SHORT_S
from tests.core.conformance.promises import promise, promise_of, refused
from tests.core.conformance.subject import Subject


@promise
def a_message_is_delivered_with_the_id_payload_and_time_of_its_publishing(subject: Subject) -> None:
    published = subject.queue.publish(subject.payload(1))
    message = subject.queue.claim().message
    assert published.accepted
    assert (message.id, message.payload, message.deliveries) == (published.id, subject.payload(1), 1)
    if subject.keeps_times:
        assert abs((datetime.now(UTC) - message.enqueued_at).total_seconds()) < 60
    else:
        assert message.enqueued_ms == 0


@promise
def many_messages_are_published_from_any_iterable_and_reported_one_by_one(subject: Subject) -> None:
    report = subject.queue.publish_many(subject.payload(number) for number in range(5))
    assert (report.accepted, report.duplicates, report.dropped, len({*report.ids})) == (5, 0, 0, 5)
    assert [message.id for message in subject.queue.admin.peek(9)] == list(report.ids)
    assert subject.queue.publish_many([]).accepted == 0


@promise
def a_payload_that_cannot_be_stored_is_refused_before_anything_is_sent(subject: Subject) -> None:
    for payload in (None, object(), {"n": float("nan")}, {1: 2}, "\ud800"):
        with pytest.raises(RedisMessageQueueError):
            subject.queue.publish(payload)
        with pytest.raises(RedisMessageQueueError):
            subject.queue.publish_many([subject.payload(1), payload])
    assert subject.counts() == (0, 0, 0, 0, 0)


def comes_back(subject: Subject, payloads: Iterable[Any]) -> None:
    for payload in payloads:
        subject.queue.publish(payload)
        lease = subject.queue.claim()
        found = lease.message.payload
        assert (type(found), found) == (type(payload), payload)
        subject.queue.ack(lease)


@promise_of("str payload", refused(lambda queue, _: queue.publish("text"), says=" has no |must be "))
def a_str_is_delivered_unchanged(subject: Subject) -> None:
    comes_back(subject, ("text", "{}", "a|b", "a|5|6", "12", "ünï 😀"))


@promise_of("bytes payload", refused(lambda queue, _: queue.publish(b"bytes"), says=" has no |must be "))
def bytes_are_delivered_unchanged(subject: Subject) -> None:
    comes_back(subject, (b"bytes", b"", b"\x00\xff\r\n", b"{}"))


@promise_of("dict payload", refused(lambda queue, _: queue.publish({"a": 1}), says=" has no |must be "))
def a_dict_is_delivered_unchanged(subject: Subject) -> None:
    comes_back(subject, ({}, {"a": [1, 2.5, None, True, {"b": "ü\u2028"}], "big": 2**80}))


@promise_of("list payload", refused(lambda queue, _: queue.publish([1]), says=" has no |must be "))
def a_list_is_delivered_unchanged(subject: Subject) -> None:
    comes_back(subject, ([], [1, "two", [3.5, None]]))


@promise_of(
    "headers",
    refused(
        lambda queue, _: queue.publish(queue.admin.peek()[0].payload, headers={"a": "b"}),
        lambda queue, _: queue.publish_many([queue.admin.peek()[0].payload], headers={"a": "b"}),
    ),
)
def headers_are_delivered_with_their_message(subject: Subject) -> None:
    subject.queue.publish(subject.payload(1), headers={"trace": "ü 1"})
    subject.queue.publish_many(subject.payloads(2, 3), headers={"trace": "2"})
    subject.publish(4)
    found = [dict(subject.queue.claim().message.headers) for _ in range(4)]
    assert found == [{"trace": "ü 1"}, {"trace": "2"}, {"trace": "2"}, {}]


@promise_of(
    "delay",
    refused(
        lambda queue, _: queue.publish(queue.admin.peek()[0].payload, delay=1),
        lambda queue, _: queue.publish_many([queue.admin.peek()[0].payload], delay=1),
    ),
)
def a_delayed_message_is_claimed_when_it_is_due_and_not_before(subject: Subject) -> None:
    subject.queue.publish(subject.payload(1), delay=timedelta(minutes=1))
    subject.queue.publish_many(subject.payloads(2), delay=SHORT_S)
    subject.publish(3)
    assert subject.queue.stats().delayed >= 1
    assert subject.queue.claim(wait=10).message.payload == subject.payload(3)
    assert subject.queue.claim(wait=10).message.payload == subject.payload(2)
    assert subject.queue.claim() is None
    assert subject.queue.stats()[:3] == (0, 1, 2)


@promise_of(
    "groups",
    refused(
        lambda queue, _: queue.publish(queue.admin.peek()[0].payload, group="a"),
        lambda queue, _: queue.publish(queue.admin.peek()[0].payload, priority=5),
        lambda queue, _: queue.publish_many([queue.admin.peek()[0].payload], group="a", priority=0),
        lambda queue, _: queue.publish(queue.admin.peek()[0].payload, publication="p"),
        lambda queue, _: queue.publish_many([queue.admin.peek()[0].payload], publication="p"),
        lambda queue, _: queue.publish(queue.admin.peek()[0].payload, expires=60),
        lambda queue, _: queue.publish_many([queue.admin.peek()[0].payload], expires=60),
        lambda queue, _: queue.claim(groups=["a"]),
    ),
)
def a_claim_gets_the_messages_of_some_groups(subject: Subject) -> None:
    subject.queue.admin.configure(groups="fair")
    subject.queue.publish(subject.payload(1), group="a")
    subject.queue.publish_many(subject.payloads(2, 3), group="b", priority=5)
    lease = subject.queue.claim(max_messages=5, groups=["b"])
    assert [message.payload for message in lease.messages] == subject.payloads(2, 3)
    assert subject.queue.ack(lease).settled == 2
    assert subject.drain() == subject.payloads(1)


@promise_of(
    "dedup",
    refused(
        lambda queue, _: queue.publish(queue.admin.peek()[0].payload, dedup_key="k"),
        lambda queue, _: queue.publish_many([queue.admin.peek()[0].payload], dedup_key=str),
    ),
)
def a_deduplication_key_is_accepted_once_from_any_publisher(subject: Subject) -> None:
    assert subject.queue.publish(subject.payload(1), dedup_key="k").accepted
    assert not subject.queue.publish(subject.payload(2), dedup_key="k").accepted
    assert not subject.open().publish(subject.payload(3), dedup_key="k").accepted
    assert subject.queue.publish(subject.payload(4), dedup_key="other").accepted
    assert subject.drain() == subject.payloads(1, 4)
    assert not subject.queue.publish(subject.payload(5), dedup_key="k").accepted


@promise_of("dedup", refused(lambda queue, _: queue.publish_many([queue.admin.peek()[0].payload], dedup_key=str)))
def publish_many_reports_which_of_its_messages_are_duplicates(subject: Subject) -> None:
    subject.queue.publish_many(subject.payloads(1, 2), dedup_key=str)
    report = subject.queue.publish_many(subject.payloads(2, 3, 3, 4), dedup_key=str)
    assert (report.accepted, report.duplicates) == (2, 2)
    assert [identifier is None for identifier in report.ids] == [True, False, True, False]
    assert subject.drain() == subject.payloads(1, 2, 3, 4)
