"""The history of a queue: what its clients did per minute and in total, how long it took, and what operators did."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from math import inf
from typing import Any

import pytest
import redis

from rmq_core import (
    ConfigurationError,
    LeasedConfig,
    LeasedQueue,
    NewMessage,
    Overflow,
    QueueFull,
    QueueUnavailable,
)
from rmq_core.admin import history
from rmq_core.observe.history import BOUNDS_S, acting_as
from tests.core.leases import SOON_S, expire
from tests.core.worlds import World

KEY = "rmq:{q}:history"
HISTORY_OFF = LeasedConfig(history=False)


def engine_of(queue: Any) -> Any:
    return getattr(queue, "inner", queue)._engine


def flush(queue: Any) -> None:
    """Let the next operation of a queue object flush what it counted, and do one."""
    engine_of(queue).tally.next_at = -inf
    queue.stats()


def totals(world: World) -> Any:
    return world.queue(config=HISTORY_OFF).admin.totals()


@pytest.fixture
def full(world: World) -> Iterator[World]:
    """A server that can be filled; its memory is free again at the end."""
    world.client.config_set("maxmemory-policy", "noeviction")
    yield world
    world.client.config_set("maxmemory", 0)


def test_every_step_is_counted_in_its_minute_its_hour_and_in_total(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_ready=9, overflow=Overflow.DROP_OLDEST))
    strict = world.queue(config=LeasedConfig(max_deliveries=1))
    queue.publish_many([*"aabcdefghij"], dedup_key=lambda payload: payload)
    lease = queue.claim(max_messages=3, lease_id="one", owner="w")
    lease = queue.claim(lease_id="one", owner="w")
    queue.ack(lease, [lease.messages[0]])
    queue.nack(lease, [lease.messages[1]])
    queue.release(lease)
    strict.nack(strict.claim())
    expire(world, strict.claim().id)
    strict.backlog()
    strict.admin.redrive()
    strict.close()
    queue.close()
    reader = world.queue(config=HISTORY_OFF)
    expected = {
        "published": 10, "duplicates": 1, "dropped": 1, "claimed": 5, "acked": 1, "nacked": 2, "released": 1,
        "reclaimed": 1, "taken_over": 3, "dead": 2, "redriven": 2, "lost": 0, "isolated": 0,
    }  # fmt: skip
    found = reader.admin.totals()
    assert {name: getattr(found, name) for name in expected} == expected
    for points in (reader.admin.history(minutes=2), reader.admin.history(hours=2)):
        assert {name: sum(getattr(point, name) for point in points) for name in expected} == expected


def test_a_history_has_a_point_for_every_minute_oldest_first(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    points = queue.admin.history(minutes=90)
    assert len(points) == 90
    assert {(after.at - before.at).seconds for before, after in pairwise(points)} == {60}
    now = queue.admin.server_time()
    assert 0 <= (now - points[-1].at).total_seconds() < 61
    assert (points[-1].published or points[-2].published, points[0].published, points[0].ready) == (1, 0, None)
    assert len(queue.admin.history()) == 60
    assert {point.seconds for point in queue.admin.history(hours=720)} == {3600}


@pytest.mark.parametrize(
    "wrong", [{"minutes": 0}, {"minutes": 1441}, {"hours": 721}, {"hours": 1, "minutes": 1}, {"minutes": "1"}]
)
def test_a_span_that_is_not_kept_is_refused_by_name(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"minutes|hours"):
        world.queue().admin.history(**wrong)


def test_the_gauges_are_the_newest_and_the_largest_that_a_flush_saw(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abcd"])
    queue.ack(queue.claim(max_messages=3))
    flush(queue)
    point = max(queue.admin.history(minutes=2), key=lambda each: each.published)
    assert (point.ready_max, point.ready, point.oldest_age is not None) == (4, 1, True)
    queue.ack(queue.claim())
    flush(queue)
    point = queue.admin.history(minutes=1)[0]
    assert (point.ready, point.oldest_age) == (0, None)


def test_a_minute_has_the_time_at_which_claims_were_counted_last(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    flush(queue)
    assert {point.last_claim for point in queue.admin.history(minutes=2)} == {None}
    lease = queue.claim()
    flush(queue)
    (last,) = (point for point in queue.admin.history(minutes=2) if point.claimed)
    assert 0 <= (queue.admin.server_time() - last.at).total_seconds() - last.last_claim < SOON_S
    queue.ack(lease)
    flush(queue)  # counts no claim
    assert last.last_claim in {point.last_claim for point in queue.admin.history(minutes=2)}
    assert queue.admin.history(hours=1)[0].last_claim is None


def test_latencies_are_measured_for_each_message_and_not_for_redeliveries(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    queue.nack(queue.claim(max_messages=3))
    queue.ack(queue.claim(max_messages=3))
    flush(queue)
    found = queue.admin.totals()
    assert (found.wait.count, found.processing.count) == (3, 6)
    assert sum(found.processing.counts[:8]) == 6, "these took milliseconds"
    point = max(queue.admin.history(minutes=2), key=lambda each: each.claimed)
    assert 0 <= point.processing.p50 <= point.processing.p95 <= point.processing.max < BOUNDS_S[10]


def test_old_minutes_are_overwritten_and_the_memory_of_a_busy_queue_is_bounded(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    field = next(name for name in world.client.hkeys(KEY) if name.startswith(b"m"))
    minute, _, rest = world.client.hget(KEY, field).partition(b" ")
    world.client.hset(KEY, field, b"%d %b" % (int(minute) - 1440, rest))
    assert sum(point.published for point in queue.admin.history(minutes=1440)) == 0
    queue.publish("y")
    flush(queue)
    assert sum(point.published for point in queue.admin.history(minutes=1440)) == 1
    busy = b"29925486 p+60000 a+60000 c+60000 g=12345 g^23456 y=1049 y^1049 " + b" ".join(
        b"%b%d+12345" % (letter, at) for letter in (b"w", b"s") for at in range(8)
    )
    world.client.hset(KEY, mapping={b"m%d" % at: busy for at in range(1440)} | {b"h%d" % at: busy for at in range(720)})
    assert world.client.memory_usage(KEY, samples=0) < 1_000_000
    assert world.client.ttl(KEY) > 30 * 86400


def test_a_flush_whose_reply_was_lost_counts_once(redis_client: redis.Redis, server_url: str) -> None:
    def unanswered(exchange: Any) -> Iterator[Any]:
        yield next(exchange)
        with suppress(StopIteration):
            exchange.throw(QueueUnavailable("the reply was lost"))

    with LeasedQueue(server_url, "q") as queue:
        queue.publish("flushed at once")
        queue.publish("flushed by hand")
        tally = engine_of(queue).tally
        queue._driver.run(unanswered(history.flush(queue._engine)))
        assert tally.failing
        assert queue.admin.totals().published == 2
        queue.publish("flushed after that")
        for _ in range(2):
            tally._retry_at = -inf
            flush(queue)
        assert queue.admin.totals().published == 3


def test_a_forked_child_counts_its_own_events_only(redis_client: redis.Redis, server_url: str) -> None:
    code = f"""
import os, rmq_core
queue = rmq_core.LeasedQueue({server_url!r}, "q")
queue.publish("first")
queue.publish("parent")
child = os.fork()
queue.publish("both")
queue.close()
if child:
    os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
    assert redis_client.hget(KEY, "totals").split()[1] == b"p+4"


@pytest.mark.parametrize("end", ["", "raise ValueError", "sys.exit(3)"])
def test_a_program_that_ends_without_closing_its_queue_has_counted_all(
    redis_client: redis.Redis, server_url: str, end: str
) -> None:
    code = f"""
import sys, rmq_core
queue = rmq_core.LeasedQueue({server_url!r}, "q")
for n in range(5):
    queue.publish(n)
queue.ack(queue.claim(max_messages=5))
{end}
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False, timeout=60, stderr=subprocess.DEVNULL)
    assert {*redis_client.hget(KEY, "totals").split()} >= {b"a+5", b"c+5", b"p+5"}


def test_a_killed_client_loses_at_most_what_it_did_since_its_last_flush(
    redis_client: redis.Redis, server_url: str
) -> None:
    code = f"""
import time, rmq_core
queue = rmq_core.LeasedQueue({server_url!r}, "q")
queue.publish("flushed at once")
time.sleep(1.1)
queue.publish("flushed, because a second has passed")
for n in range(5):
    queue.publish("lost")
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        os.kill(client.pid, signal.SIGKILL)
    assert redis_client.hget(KEY, "totals").split()[1] == b"p+2"
    assert redis_client.llen("rmq:{q}:ready") == 7


def test_a_full_server_refuses_the_flush_and_the_counts_follow_later(full: World) -> None:
    queue = full.queue()
    queue.publish_many([*"ab"])
    full.client.config_set("maxmemory", 1)
    queue.ack(queue.claim())
    flush(queue)
    with pytest.raises(QueueFull):
        queue.admin.mark("too full")
    full.client.config_set("maxmemory", 0)
    assert queue.admin.totals().acked == 0
    engine_of(queue).tally._retry_at = -inf
    queue.ack(queue.claim())
    flush(queue)
    assert (queue.admin.totals().claimed, queue.admin.totals().acked) == (2, 2)


def test_a_history_key_of_another_type_fails_no_operation(world: World) -> None:
    world.client.set(KEY, "not ours")
    queue = world.queue()
    queue.publish("x")
    queue.ack(queue.claim())
    queue.close()
    assert world.client.get(KEY) == b"not ours"


def test_a_client_whose_history_is_off_writes_none(world: World) -> None:
    queue = world.queue(config=HISTORY_OFF)
    queue.publish("x")
    queue.admin.pause()
    queue.close()
    assert not world.client.exists(KEY)
    assert (queue.admin.totals().since, queue.admin.totals().published, queue.admin.marks()) == (None, 0, [])


def test_what_operators_do_is_marked_with_who_did_it(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1))
    with acting_as("alice\tvia console"):
        queue.publish_many([*"abc"])
        queue.nack(queue.claim(max_messages=2))
        queue.admin.pause()
        queue.admin.resume()
        queue.admin.redrive()
        queue.admin.redrive()
        queue.admin.purge("ready")
        queue.admin.mark("deployed\n1.4")
    found = queue.admin.marks()
    assert [(mark.kind, mark.text) for mark in found] == [
        ("pause", ""), ("resume", ""), ("redrive", "2"), ("purge", "3 of ready"), ("mark", "deployed 1.4"),
    ]  # fmt: skip
    assert {mark.by for mark in found} == {"alice via console"}
    for number in range(60):
        queue.admin.mark(f"mark {number}")
    assert [mark.text for mark in queue.admin.marks()] == [f"mark {number}" for number in range(10, 60)]
    with pytest.raises(ConfigurationError, match="text"):
        queue.admin.mark(" ")


def a_second_later(queue: Any) -> None:
    """Pretend that a second has passed, so that the next action of an operator makes a new mark."""
    engine_of(queue).tally._acted_at = -inf


def test_what_operators_do_to_messages_is_marked_with_how_many_or_which(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1))
    ready = queue.publish_many([NewMessage(each, id=each) for each in "abcdef"]).ids
    later = queue.publish("g", delay=60).id
    for act in (
        lambda: queue.admin.run_now(later),
        lambda: queue.admin.cancel(ready[5]),
        lambda: queue.nack(queue.claim(max_messages=4)),
        lambda: queue.admin.edit("a", "z"),
        lambda: queue.admin.discard(["b", "c", "unknown"]),
    ):
        with acting_as("alice"):
            act()
        a_second_later(queue)
    with acting_as("alice"):
        assert not any(
            (queue.admin.run_now("x"), queue.admin.cancel("x"), queue.admin.discard(["x"]), queue.admin.edit("x", "z"))
        )
    found = queue.admin.marks()
    assert [(mark.kind, mark.text) for mark in found] == [
        ("run-now", f"message {later}"), ("cancel", "message f"), ("edit", "message a"), ("discard", "2 messages"),
    ]  # fmt: skip
    assert {mark.by for mark in found} == {"alice"}


def test_a_program_that_cancels_all_the_time_makes_few_marks_and_pushes_none_of_others_out(world: World) -> None:
    queue = world.queue()
    queue.admin.pause()
    ids = queue.publish_many([str(n) for n in range(300)]).ids
    assert all(queue.admin.cancel(each) for each in ids[:199])
    a_second_later(queue)
    assert queue.admin.cancel(ids[199])
    queue.admin.mark("message to all")
    marks = [mark for mark in queue.admin.marks() if mark.kind == "cancel"]
    assert len(marks) < 40  # one a second, and not one a call
    numbers = [1 if mark.text.startswith("message ") else int(mark.text.split()[0]) for mark in marks]
    assert sum(numbers) == 200
    for each in ids[200:260]:
        a_second_later(queue)
        queue.admin.cancel(each)
    kinds = [mark.kind for mark in queue.admin.marks()]
    assert kinds.count("cancel") == 25
    assert kinds[:2] == ["pause", "mark"]


def test_unregistering_an_empty_queue_removes_its_history(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.ack(queue.claim())
    assert world.client.exists(KEY)
    queue.admin.unregister()
    queue.close()
    assert not world.client.exists(KEY)
