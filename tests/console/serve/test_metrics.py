"""The metrics that Prometheus reads, parsed by its own library."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

from rmq_console.serve.metrics import EVENTS, queues_text
from rmq_console.serve.reading import QueueReading
from rmq_core import LeasedQueue, open_queue
from rmq_core.observe.history import BOUNDS_S
from tests.console.serve.conftest import QUEUE, Served
from tests.servers.process import Server


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


async def scraped(served: Served) -> dict[str, float]:
    """Return the metrics of the queue `work` by name."""
    answer = await served.client().get("/metrics")
    assert answer.status_code == 200
    return {name: value for name, labels, value in samples(answer.text) if labels.get("queue") == QUEUE}


def gauges(found: dict[str, float]) -> dict[str, float]:
    """Return the metrics that are not made from totals."""
    counted = ("rmq_messages_total", "rmq_wait_seconds", "rmq_processing_seconds")
    return {name: value for name, value in found.items() if not name.startswith(counted)}


async def test_every_number_of_a_queue_is_a_gauge(served: Served, queue: LeasedQueue) -> None:
    queue.publish_many([*"abcdef"])
    queue.nack(queue.claim())
    queue.claim(max_messages=2)
    queue.publish("later", delay=60)
    queue.admin.pause()
    found = await scraped(served)
    assert 0 <= found.pop("rmq_oldest_ready_age_seconds") < 60
    assert 0 <= found.pop("rmq_oldest_lease_age_seconds") < 60
    assert gauges(found) == {
        "rmq_queue_readable": 1,
        "rmq_ready_messages": 3,
        "rmq_isolated_messages": 0,
        "rmq_delayed_messages": 1,
        "rmq_leased_messages": 2,
        "rmq_leases": 1,
        "rmq_expired_leases": 0,
        "rmq_dead_letters": 1,
        "rmq_paused": 1,
    }


async def test_the_age_of_the_oldest_message_is_absent_when_none_is_ready(served: Served, queue: LeasedQueue) -> None:
    queue.publish("x")
    queue.claim()
    assert "rmq_oldest_ready_age_seconds" not in await scraped(served)


async def test_expired_leases_are_counted_in_the_look_that_reclaims_them(served: Served, redis_server: Server) -> None:
    with LeasedQueue(redis_server.url, QUEUE) as queue:
        queue.publish_many(map(str, range(40)))
        held = [queue.claim() for _ in range(40)]
        queue.client.zadd("rmq:{work}:leases", {lease.id: 1 for lease in held if lease})
    found = await scraped(served)
    assert (found["rmq_expired_leases"], found["rmq_leases"], found["rmq_ready_messages"]) == (40, 0, 40)
    assert (await scraped(served))["rmq_expired_leases"] == 0


async def test_leases_that_nobody_but_the_reading_takes_back_are_counted_as_reclaimed(
    served: Served, queue: LeasedQueue
) -> None:
    queue.publish("kills its workers")
    for loop in (1, 2, 3):
        lease = queue.claim()
        assert lease
        queue.client.zadd("rmq:{work}:leases", {lease.id: 1})
        await served.client().get("/keda/work")
        assert queue.admin.totals().reclaimed == loop


async def test_a_damaged_queue_is_not_readable_and_hides_no_other(
    served: Served, queue: LeasedQueue, redis_server: Server
) -> None:
    queue.publish("fine")
    for name, key in (("a", "ready"), ("z", "leases")):
        with LeasedQueue(redis_server.url, name) as damaged:
            damaged.publish("x")
            damaged.client.delete(f"rmq:{{{name}}}:{key}")
            damaged.client.set(f"rmq:{{{name}}}:{key}", "foreign")
    answer = await served.client().get("/metrics")
    found = [(name, labels["queue"], value) for name, labels, value in samples(answer.text) if labels]
    assert [item[1:] for item in found if item[0] == "rmq_queue_readable"] == [("a", 0), (QUEUE, 1), ("z", 0)]
    assert {name for _, name, _ in found if name != QUEUE} == {"a", "z"}
    assert [item[1:] for item in found if item[0] == "rmq_ready_messages"] == [(QUEUE, 1)]
    assert (await served.client().get("/keda/a")).status_code == 502


async def test_a_name_cannot_break_out_of_its_label(served: Served, redis_server: Server) -> None:
    names = ['a" 1', "b\\", "c,d=e", "ż"]
    impossible = ['a"} 1\nrmq_up 7', "{c}", "x" * 600]
    for name in names:
        with LeasedQueue(redis_server.url, name) as queue:
            queue.publish("x")
    with redis_server.client() as client:
        client.sadd("rmq:queues", *impossible)
    found = list(samples((await served.client().get("/metrics")).text))
    assert {labels["queue"] for name, labels, _ in found if name == "rmq_ready_messages"} == set(names)
    readable = {labels["queue"]: value for name, labels, value in found if name == "rmq_queue_readable"}
    assert readable == dict.fromkeys(names, 1) | dict.fromkeys(impossible, 0)
    assert [value for name, _, value in found if name == "rmq_up"] == [1]


async def test_requests_at_the_same_time_read_redis_once(served: Served, queue: LeasedQueue) -> None:
    queue.publish("x")
    client = served.client()
    await client.get("/metrics")
    before = queue.client.info("stats")["total_commands_processed"]
    for _ in range(20):
        await client.get("/metrics")
    assert queue.client.info("stats")["total_commands_processed"] - before < 60


@pytest.mark.parametrize("discipline", ["reliable", "rotation", "streams"])
async def test_a_discipline_without_history_has_no_counters(
    served: Served, redis_server: Server, discipline: str
) -> None:
    with open_queue(redis_server.url, QUEUE, discipline) as queue:  # type: ignore[attr-defined]
        queue.publish({"n": 1} if discipline == "streams" else "x")
        queue.ack(queue.claim())
    found = await scraped(served)
    assert (found["rmq_queue_readable"], found.keys() - gauges(found).keys()) == (1, set())


def test_totals_become_counters_and_histograms_with_buckets_of_powers_of_two() -> None:
    counts = {field: number for number, field in enumerate(EVENTS.values(), 1)}
    wait = SimpleNamespace(counts=(1, 2, *[0] * 20, 4), sum=9.5)
    totals = SimpleNamespace(**counts, wait=wait, processing=SimpleNamespace(counts=[0] * 23, sum=0.0))
    reading = QueueReading(QUEUE, "leased", stats=LeasedStats, expired=0, totals=totals)
    text = queues_text(choose_encoder("")[0], [reading]).decode()
    found = [(name, labels, value) for name, labels, value in samples(text) if labels]
    events = {labels["event"]: value for name, labels, value in found if name == "rmq_messages_total"}
    assert events == dict(zip(EVENTS, itertools.count(1.0)))
    buckets = [(float(labels["le"]), value) for name, labels, value in found if name == "rmq_wait_seconds_bucket"]
    assert [bound for bound, _ in buckets] == [*BOUNDS_S, float("inf")]
    assert (BOUNDS_S[0], BOUNDS_S[-1]) == (2**-7, 2**14)
    assert [value for _, value in buckets] == [1, *[3] * 21, 7]
    assert [value for name, _, value in found if name in {"rmq_wait_seconds_count", "rmq_wait_seconds_sum"}] == [7, 9.5]


LeasedStats: Any = SimpleNamespace(
    ready=0,
    delayed=0,
    leased=0,
    leases=0,
    dead=0,
    oldest_age=None,
    paused=False,
    isolated=0,
    oldest_lease=None,
)
