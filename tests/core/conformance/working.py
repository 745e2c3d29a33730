"""The promises about `process`, `run` and closing."""

from __future__ import annotations

import contextlib
import pickle
import threading
from typing import Any

import pytest

from rmq_core import LeaseLost
from tests.core.conformance.kits import LONG_S
from tests.core.conformance.promises import promise, promise_of, refused
from tests.core.conformance.subject import Subject
from tests.core.leases import frequent_heartbeats, handler_of, kept


class HandlerFailed(Exception):
    pass


@promise
def a_block_that_succeeds_acks_its_messages(subject: Subject) -> None:
    subject.publish(1, 2)
    with subject.queue.process() as batch:
        assert batch.payloads == [subject.payload(1)]
        assert subject.counts() == (1, 0, 1, 1, 0)
    assert subject.drain() == subject.payloads(2)


@promise
def a_block_that_raises_returns_its_messages_and_the_exception_propagates(subject: Subject) -> None:
    subject.publish(1)
    with pytest.raises(HandlerFailed, match=r"^no disk$"), subject.queue.process():
        raise HandlerFailed("no disk")
    assert subject.queue.claim(wait=10).message.payload == subject.payload(1)


@promise
def an_interrupted_block_leaves_its_messages_to_expire(subject: Subject) -> None:
    subject.publish(1)
    with pytest.raises(KeyboardInterrupt), subject.queue.process():
        raise KeyboardInterrupt
    assert subject.counts() == (0, 0, 1, 1, 0)


@promise
def a_block_without_work_gets_nothing(subject: Subject) -> None:
    with subject.queue.process() as batch:
        assert not batch
        assert [*batch] == []


@promise
def messages_settled_in_a_block_stay_settled(subject: Subject) -> None:
    worker: Any = subject.open()
    subject.publish(1)
    with worker.process() as batch:
        batch.release(*batch)
    assert subject.drain() == subject.payloads(1)


@promise_of("partial_settle", refused(lambda queue, lease: queue.ack(lease, lease.messages)))
def a_block_settles_its_unsettled_messages_at_its_end(subject: Subject) -> None:
    subject.publish(1, 2, 3)
    with contextlib.suppress(HandlerFailed), subject.queue.process(max_messages=3) as batch:
        one, two, _ = batch
        batch.ack(one, two)
        raise HandlerFailed
    assert subject.queue.claim(wait=10).message.payload == subject.payload(3)
    assert subject.queue.claim() is None


@promise_of("extend", refused(lambda queue, lease: queue.extend(lease, 100)))
def a_block_holds_its_messages_for_longer_than_one_lease(subject: Subject) -> None:
    subject.publish(1)
    with frequent_heartbeats(), subject.open().process(lease=LONG_S) as batch:
        for _ in range(3):
            subject.let_pass(LONG_S // 2)
            kept(batch.lease, LONG_S)
        assert not batch.lease.lost
        assert subject.recovered(wait_s=0) is None
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise
def a_block_that_lost_its_messages_raises_at_its_end(subject: Subject) -> None:
    subject.publish(1)
    with pytest.raises(LeaseLost), subject.queue.process() as batch:
        subject.open().release(pickle.loads(pickle.dumps(batch.lease)))  # as another process that holds the lease would
    assert subject.drain() == subject.payloads(1)


@promise
def a_run_acks_what_its_handler_returns_for_and_requeues_what_it_raises_for(subject: Subject) -> None:
    subject.publish(1, 2)
    seen, stop = [], threading.Event()

    def handle(message: Any) -> None:
        seen.append(message.payload)
        if len(seen) == 1:
            raise HandlerFailed
        if len(seen) == 3:
            stop.set()

    report = subject.queue.run(handler_of(subject.stage.flavour, handle), stop=stop)
    assert report == (2, 1, 0, 0)
    assert sorted(map(subject.number, seen)) == [1, 1, 2]
    assert subject.counts() == (0, 0, 0, 0, 0)


@promise
def closing_a_queue_object_leaves_the_queue_unchanged(subject: Subject) -> None:
    worker, lease = subject.held(1)
    subject.publish(2)
    worker.close()
    worker.close()
    assert subject.counts() == (1, 0, 1, 1, 0)
    assert subject.queue.ack(lease).settled == 1
