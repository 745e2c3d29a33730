from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from rmq_core import ConfigurationError, LeasedConfig, Unsupported, running
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue
from rmq_core.reports import RunReport
from tests.core.leases import (
    PATIENCE_S,
    blocked,
    drain,
    eventually_later,
    fall_due,
    frequent_heartbeats,
    handler_of,
    key,
    payloads,
)
from tests.core.worlds import World

LONG_S = 600


def run(world: World, queue: Any, function: Callable[[Any], object], **options: Any) -> RunReport:
    """Run a handler until the queue is empty."""
    report: RunReport = queue.run(handler_of(world.flavour, function), until_empty=True, **options)
    return report


def test_a_message_is_acked_when_its_handler_returns_and_nacked_when_it_raises(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    queue = world.queue()
    queue.publish_many(["good", "bad"])
    seen = []

    def handle(message: Any) -> str:
        seen.append((message.payload, message.deliveries, [failure.reason for failure in message.history]))
        if message.payload == "bad" and message.deliveries == 1:
            raise OSError("no disk")
        return "ignored"

    assert run(world, queue, handle) == (2, 1, 0, 0)
    assert seen == [("good", 1, []), ("bad", 1, []), ("bad", 2, ["OSError: no disk"])]
    assert queue.stats()[:4] == (0, 0, 0, 0)
    (failed,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "OSError: no disk" in failed.getMessage()
    assert failed.exc_info is not None


def test_a_failed_message_waits_for_retry_after_and_dies_after_its_last_delivery(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=2))
    queue.publish("bad")

    def handle(message: Any) -> None:
        raise ValueError(message.payload)

    assert run(world, queue, handle, retry_after=LONG_S) == (0, 1, 0, 0)
    assert queue.stats().delayed == 1
    fall_due(world)
    assert run(world, queue, handle) == (0, 1, 1, 0)
    assert queue.stats().dead == 1


def test_with_max_messages_the_handler_gets_batches_and_may_settle_single_messages(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abcde"])
    batches = []

    def handle(batch: Any) -> None:
        lease = batch.lease
        batches.append(payloads(lease.messages))
        if batches == [["a", "b", "c"]]:
            queue.nack(lease, [lease.messages[1]], reason="not now")

    assert run(world, queue, handle, max_messages=3).failed == 0
    assert batches == [["a", "b", "c"], ["b", "d", "e"]]
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_as_many_handlers_work_at_once_as_concurrency_says(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    together = threading.Barrier(3, timeout=PATIENCE_S)
    assert run(world, queue, lambda _: together.wait(), concurrency=3) == (3, 0, 0, 0)


def test_a_handler_may_take_longer_than_its_lease(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=LONG_S))
    queue.publish("x")

    def handle(_: Any) -> None:
        ((lease, deadline),) = world.client.zrange(key("leases"), 0, -1, withscores=True)
        for _ in range(3):
            world.client.zincrby(key("leases"), -1000 * LONG_S // 2, lease)
            while (world.client.zscore(key("leases"), lease) or 0) < deadline:
                pass

    with frequent_heartbeats():
        assert run(world, queue, handle) == (1, 0, 0, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_a_lost_lease_is_counted_and_the_run_goes_on(world: World, *, fails: bool) -> None:
    queue, thief = world.queue(), world.queue()
    queue.publish_many(["lost", "kept"])
    seen = []

    def handle(message: Any) -> None:
        seen.append(message.payload)
        if message.payload == "lost":
            thief.ack(thief.adopt(message.lease_id, owner="thief"))
            if fails:
                raise ValueError

    report = run(world, queue, handle)
    assert (report.lost, report.failed) == (1, 0)
    assert seen == ["lost", "kept"]
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_a_run_ends_after_the_present_message_once_stop_is_set(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    stop = threading.Event()
    assert queue.run(handler_of(world.flavour, lambda _: stop.set()), stop=stop) == (1, 0, 0, 0)
    assert drain(queue) == ["b"]


def test_a_waiting_run_ends_once_stop_is_set(world: World) -> None:
    queue = world.queue()
    stop = threading.Event()
    ended = world.in_background(queue.run, handler_of(world.flavour, print), stop=stop, concurrency=2)
    stop.set()
    assert ended.result(PATIENCE_S) == (0, 0, 0, 0)


def test_a_run_waits_for_messages_that_come_within_its_wait(world: World) -> None:
    queue, stop = world.queue(), threading.Event()
    ended = world.in_background(run, world, queue, lambda _: stop.set(), wait=PATIENCE_S, stop=stop)
    blocked(world, 1)
    queue.publish("late")
    assert ended.result(PATIENCE_S) == (1, 0, 0, 0)


def test_once_a_minute_the_run_logs_what_it_did_and_what_is_left(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "rmq")
    monkeypatch.setattr(running, "_MINUTE_S", 0)
    queue = world.queue()
    queue.publish_many([*"ab"])
    run(world, queue, lambda _: None)
    told = [record.getMessage() for record in caplog.records if "minute" in record.getMessage()]
    assert told[0] == "queue 'q': in the last minute 1 handled, 0 failed (0 dead), 0 lost; 1 ready"
    assert told[1].endswith("1 handled, 0 failed (0 dead), 0 lost; 0 ready")


def test_the_first_error_that_no_retry_can_mend_ends_all_workers(world: World) -> None:
    queue = world.queue()
    with pytest.raises(ConfigurationError, match="lease"):
        queue.run(handler_of(world.flavour, print), lease=-1, concurrency=2, stop=threading.Event())


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"max_messages": 0}, "max_messages"), ({"concurrency": 0}, "concurrency"), ({"wait": -1}, "wait"),
     ({"retry_after": -1}, "retry_after")],
)  # fmt: skip
def test_a_wrong_argument_is_named_and_nothing_is_claimed(world: World, wrong: dict[str, Any], named: str) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(ConfigurationError, match=named):
        run(world, queue, print, **wrong)
    assert queue.stats().ready == 1


def test_a_handler_of_the_other_kind_of_queue_is_refused_with_the_way_out(world: World) -> None:
    async def awaited(_: Any) -> None: ...

    class Awaited:
        async def __call__(self, _: Any) -> None: ...

    other, way_out = (awaited, "rmq_core.asyncio") if world.flavour == "sync" else (print, "plain functions")
    others = [other, Awaited()] if world.flavour == "sync" else [other]
    for handler in others:
        with pytest.raises(ConfigurationError, match=way_out):
            world.queue().run(handler)
    with pytest.raises(ConfigurationError, match="handler must be a function"):
        world.queue().run("tasks:handle")


def test_a_handler_that_returns_an_awaitable_ends_the_run_and_its_message_is_released(world: World) -> None:
    async def work() -> None: ...

    async def forgets_to_await(_: Any) -> Any:
        return work()

    queue = world.queue()
    queue.publish("x")
    handler = forgets_to_await if world.flavour == "async" else lambda _: work()
    with pytest.raises(ConfigurationError, match="returned an awaitable"):
        queue.run(handler, stop=threading.Event())
    assert [message.deliveries for message in queue.admin.peek()] == [0]


def test_a_handler_that_ends_the_process_fails_its_message_and_the_run_goes_on(world: World) -> None:
    def work(message: Any) -> None:
        if message.payload == "bad":
            sys.exit(5)

    async def awaited(message: Any) -> None:
        work(message)

    queue = world.queue(config=LeasedConfig(max_deliveries=1))
    queue.publish_many(["bad", "good"])
    report = queue.run(awaited if world.flavour == "async" else work, until_empty=True)
    assert (report.handled, report.dead) == (1, 1)
    assert "SystemExit" in queue.admin.dead_letters()[0].history[-1].reason


def test_retry_after_is_refused_by_a_discipline_without_delays(world: World) -> None:
    queue = world.open("rotation", "r")
    with pytest.raises(Unsupported, match="retry_after"):
        run(world, queue, print, retry_after=1)


async def test_a_cancelled_run_releases_its_messages_and_a_handlers_own_cancellation_is_a_failure(
    redis_client: redis.Redis, server_url: str
) -> None:
    async with AsyncLeasedQueue(server_url, "q") as queue:
        await queue.publish_many([*"abc"])
        working: list[Any] = []

        async def handle(message: Any) -> None:
            if message.payload == "c" and message.deliveries == 1:
                raise asyncio.CancelledError  # as of a task that the handler cancelled
            working.append(message.payload)
            await asyncio.Event().wait()

        running = asyncio.create_task(queue.run(handle, concurrency=3))
        await eventually_later(lambda: _answer(len(working) == 3))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sorted(working) == [*"abc"]
        lease = await queue.claim(max_messages=3)
        assert {message.payload: message.deliveries for message in lease.messages} == {"a": 1, "b": 1, "c": 2}


async def _answer(value: object) -> object:
    return value
