"""The WorkQueue protocol on a reliable queue, and what the queue refuses."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rmq_core import ConfigurationError, Lease, PayloadError, Unsupported, WorkQueue
from rmq_core.protocol import AsyncWorkQueue
from tests.redis.leases import snapshot
from tests.redis.reliable.bench import KEYS, age, drain, payloads, processing, worker
from tests.redis.worlds import World

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a delay": (lambda queue: queue.publish("x", delay=1), "delay"),
    "a delay of many": (lambda queue: queue.publish_many(["x"], delay=1), "delay"),
    "deduplication": (lambda queue: queue.publish("x", dedup_key="k"), "dedup"),
    "deduplication of many": (lambda queue: queue.publish_many(["x"], dedup_key=str), "dedup"),
    "a large lease": (lambda queue: queue.claim(max_messages=4001), "leases of more than 4000 messages"),
    "a named lease": (lambda queue: queue.claim(lease_id="job"), "lease_id"),
    "delayed messages": (lambda queue: queue.admin.purge("delayed"), "delayed"),
    "a delayed nack": (lambda queue: queue.nack(Lease("q", "~", "w", 1, 1, "t", envelopes=[b""]), delay=1), "delay"),
}


def test_it_implements_the_work_queue_protocol(world: World) -> None:
    queue = worker(world)
    assert isinstance(getattr(queue, "inner", queue), WorkQueue if world.flavour == "sync" else AsyncWorkQueue)
    assert (queue.name, queue.discipline) == ("q", "reliable")


@pytest.mark.parametrize("what", list(REFUSED))
def test_an_unsupported_option_is_refused_before_anything_is_sent(world: World, what: str) -> None:
    call, named = REFUSED[what]
    queue = worker(world)
    before = snapshot(world.client)
    with pytest.raises(Unsupported, match=rf"'reliable' has no {named}.*leased"):
        call(queue)
    assert snapshot(world.client) == before


def test_a_block_acks_when_it_succeeds_and_nacks_when_it_raises(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b"])
    with queue.process() as batch:
        assert batch.payloads == ["a"]
    with pytest.raises(ZeroDivisionError), queue.process():
        _ = 1 / 0
    message = queue.claim().message
    assert (message.payload, message.history[0].reason) == ("b", "ZeroDivisionError: division by zero")


def test_process_yields_an_empty_batch_when_the_queue_is_empty(world: World) -> None:
    with worker(world).process(wait=0.01) as batch:
        assert not batch


def test_stats_and_backlog_count_messages_by_state(world: World) -> None:
    queue, other = worker(world, max_deliveries=1), worker(world, "other")
    assert (queue.backlog()[:2], queue.stats()[:5]) == ((0, None), (0, 0, 0, 0, 0))
    queue.publish_many(["a", "b", "c", "d", "e", "f"])
    queue.nack(queue.claim())
    queue.claim(max_messages=2)
    other.claim()
    other.claim()
    found = queue.stats()
    assert (found.ready, found.delayed, found.leased, found.leases, found.dead) == (1, 0, 4, 3, 1)
    assert (queue.backlog().ready, found.paused) == (1, False)
    assert found.oldest_age is not None
    assert found.oldest_age >= 0


def test_any_number_of_workers_is_counted_and_reaped(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b"])
    world.client.zadd(KEYS.workers, {f"idle {number}": time.time() * 1000 for number in range(2100)})
    for name in ("w", "idle 7"):
        queue.claim(owner=name)
        age(world, name)
    assert queue.stats()[:4] == (0, 0, 2, 2)
    world.client.config_resetstat()
    assert queue.reap().returned == 2
    assert world.client.info("commandstats")["cmdstat_evalsha"]["calls"] <= 10


def test_peeking_takes_nothing(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b", "c"])
    assert payloads(queue.admin.peek(2)) == ["a", "b"]
    assert queue.admin.peek()[0].deliveries == 0
    assert drain(queue) == ["a", "b", "c"]


def test_purging_spares_what_workers_hold(world: World) -> None:
    queue = worker(world, max_deliveries=1)
    queue.publish_many(["a", "b", "c"])
    queue.nack(queue.claim())
    lease = queue.claim()
    assert (queue.admin.purge("ready"), queue.admin.purge("dead"), queue.admin.purge("dead")) == (1, 1, 0)
    assert len(processing(world)) == 1
    assert queue.ack(lease).settled == 1


def test_the_report_of_a_refused_publish_states_what_was_accepted(world: World) -> None:
    queue = worker(world)
    with pytest.raises(PayloadError) as caught:
        queue.publish_many([*map(str, range(1000)), "one more", object()])
    assert caught.value.report.accepted == 1000
    assert queue.stats().ready == 1000


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda queue: queue.claim(max_messages=0), "max_messages"),
        (lambda queue: queue.claim(wait=-1), "wait"),
        (lambda queue: queue.claim(lease=0), "lease"),
        (lambda queue: queue.claim(owner="{"), "owner"),
        (lambda queue: queue.admin.purge("everything"), "target"),
        (lambda queue: queue.admin.peek(0), "count"),
        (lambda queue: queue.admin.redrive(0), "max_messages"),
        (lambda queue: queue.reap(timeout=0), "timeout"),
        (lambda queue: queue.reap(max_deliveries=0), "max_deliveries"),
        (lambda queue: queue.ack(Lease.from_json(Lease("q", "x", "w", 1, 1, "t").to_json())), "adopt"),
    ],
)
def test_the_error_for_an_invalid_value_names_the_parameter(
    world: World, call: Callable[[Any], Any], parameter: str
) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        call(worker(world))


def test_a_message_of_another_lease_is_refused(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b"])
    one, other = queue.claim(), queue.claim()
    with pytest.raises(ConfigurationError, match="belongs to lease"):
        queue.ack(one, [other.message])


def test_durations_may_be_timedeltas(world: World) -> None:
    queue = worker(world, timeout=timedelta(minutes=10))
    queue.publish("a")
    lease = queue.claim(lease=timedelta(seconds=5), wait=timedelta(0))
    assert queue.extend(lease, by=timedelta(hours=1)) > lease.deadline
