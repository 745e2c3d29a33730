"""Workers: handlers, failures, retries, dead letters, graceful stop, heartbeats, recovery."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
import redis

from rmq_core import UnrecoverableError, exponential
from rmq_core.asyncio import Worker
from rmq_core.jobs import Job, WorkerConfig
from rmq_core.jobs import worker as operations
from rmq_core.jobs.worker import Done
from tests.core.jobs.bench import KEYS, Log, hung, queue_at, working

AT_ONCE = exponential(0, 0)


@pytest.fixture
def url(server_url: str, redis_client: redis.Redis) -> str:
    """A server with an empty database."""
    del redis_client
    return server_url


async def test_a_worker_runs_a_handler_for_each_job_and_deletes_finished_jobs(
    url: str, redis_client: redis.Redis
) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append((job.name, job.data, job.attempt))

    async with queue_at(url) as queue, working(queue, handler):
        await queue.add_bulk({"name": "j", "data": number} for number in range(500))
        await log.count(500)
    assert log.seen == [("j", number, 1) for number in range(500)]
    assert (redis_client.xlen(KEYS.ready), (await stats_of(url)).leased) == (0, 0)


async def test_a_plain_function_runs_in_a_thread(url: str) -> None:
    log = Log()

    def handler(job: Job) -> None:
        log.seen.append(threading.current_thread() is threading.main_thread())

    async with queue_at(url) as queue, working(queue, handler):
        await queue.add("j")
        await log.count(1)
    assert log.seen == [False]


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_no_more_handlers_run_concurrently_than_configured(url: str, concurrency: int) -> None:
    log, running = Log(), 0

    async def handler(job: Job) -> None:
        nonlocal running
        running += 1
        log.seen.append(running)
        await asyncio.sleep(0.01)
        running -= 1

    async with queue_at(url) as queue, working(queue, handler, concurrency=concurrency):
        await queue.add_bulk({"name": "j"} for _ in range(20))
        await log.count(20)
    assert max(log.seen) == concurrency


async def test_a_failed_job_returns_after_its_backoff_with_one_more_attempt(url: str) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append((job.id, job.attempt, time.monotonic()))
        if job.attempt < 3:
            raise ValueError("not yet")

    async with queue_at(url) as queue, working(queue, handler):
        job = await queue.add("j", attempts=5, backoff=exponential(base=0.1, cap=0.1, jitter=0))
        await log.count(3)
    assert [entry[:2] for entry in log.seen] == [(job.id, 1), (job.id, 2), (job.id, 3)]
    assert all(later[2] - sooner[2] >= 0.09 for sooner, later in zip(log.seen, log.seen[1:], strict=False))


async def test_a_job_whose_attempts_are_used_up_is_a_dead_letter_with_its_history(url: str) -> None:
    async def handler(job: Job) -> None:
        raise ValueError(f"no {job.attempt}")

    async with queue_at(url, max_attempts=2, backoff=AT_ONCE) as queue, working(queue, handler):
        await queue.add("j", {"a": 1})
        dead = await one_dead(queue)
    assert (dead.name, dead.data, dead.attempt) == ("j", {"a": 1}, 2)
    assert [failure.reason for failure in dead.history] == ["ValueError: no 1", "ValueError: no 2"]


async def test_an_unrecoverable_error_is_a_dead_letter_at_once(url: str) -> None:
    async def handler(job: Job) -> None:
        raise UnrecoverableError("never")

    async with queue_at(url) as queue, working(queue, handler):
        await queue.add("j")
        assert (await one_dead(queue)).attempt == 1
        assert (await queue.stats())[:5] == (0, 0, 0, 0, 1)


async def test_a_dead_letter_records_that_its_error_was_unrecoverable_whatever_its_class(url: str) -> None:
    class NoSuchUserError(UnrecoverableError):
        pass

    async def handler(job: Job) -> None:
        raise NoSuchUserError("who is 7?")

    async with queue_at(url) as queue, working(queue, handler):
        await queue.add("j")
        await one_dead(queue)
        (letter,) = await queue.admin.dead_letters()
        assert letter.history[-1].reason == "UnrecoverableError (NoSuchUserError): who is 7?"


async def test_a_replayed_dead_letter_begins_with_attempt_one(url: str) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job.attempt)
        if len(log.seen) <= 2:
            raise ValueError("no")

    async with queue_at(url, max_attempts=2, backoff=AT_ONCE) as queue, working(queue, handler):
        await queue.add("j")
        await one_dead(queue)
        assert await queue.replay_dlq() == 1
        await log.count(3)
    assert log.seen == [1, 2, 1]


async def test_jobs_of_a_worker_that_died_go_to_others_with_the_attempt_counted(url: str) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append((job.data, job.attempt))

    async with queue_at(url, lease=0.3) as queue:
        await queue.add_bulk({"name": "j", "data": number} for number in range(3))
        await hung(queue, 3)
        async with working(queue, handler):
            await log.until(lambda: {number for number, _ in log.seen} == {0, 1, 2})
    assert dict(reversed(log.seen)) == {0: 2, 1: 2, 2: 2}


async def test_a_job_that_kills_its_workers_becomes_a_dead_letter(url: str) -> None:
    async def handler(job: Job) -> None:
        raise AssertionError("it must not be begun")

    async with queue_at(url, lease=0.2, max_attempts=1) as queue:
        await queue.add("j")
        await hung(queue)
        async with working(queue, handler):
            dead = await one_dead(queue)
    assert "workers died" in dead.history[-1].reason


async def test_a_long_job_is_not_delivered_twice_while_its_worker_lives(url: str) -> None:
    """Without heartbeats the jobs would always be redelivered; with them, only if the machine hangs."""

    async def attempts() -> list[int]:
        log = Log()

        async def handler(job: Job) -> None:
            log.seen.append(job.attempt)
            await asyncio.sleep(0.7)

        async with queue_at(url, lease=0.2) as queue, working(queue, handler), working(queue, handler):
            await queue.add("j")
            await log.count(1)
            await asyncio.sleep(0.6)
        return log.seen

    assert any([await attempts() == [1] for _ in range(5)])


async def test_jobs_fetched_ahead_of_a_slow_one_go_to_other_workers(url: str) -> None:
    log, over = Log(), asyncio.Event()

    async def handler(job: Job) -> None:
        log.seen.append(job.data)
        if job.data == "slow" and job.attempt == 1:
            await over.wait()

    async with queue_at(url, lease=0.3) as queue:
        await queue.add_bulk({"name": "j", "data": data} for data in ["slow", "a", "b"])
        async with working(queue, handler, concurrency=1) as stuck:
            stuck._prefetch._rate, stuck._prefetch.extra = 1e6, 10
            await log.count(1)
            await asyncio.sleep(0.05)
            async with working(queue, handler, concurrency=1):
                await log.until(lambda: {*log.seen} == {"a", "b", "slow"})
            over.set()


async def test_a_stopped_worker_finishes_running_jobs_and_releases_the_rest(url: str) -> None:
    log, stopped = Log(), asyncio.Event()

    async def handler(job: Job) -> None:
        log.seen.append(("began", job.data))
        await stopped.wait()
        log.seen.append(("ended", job.data))

    async with queue_at(url) as queue:
        await queue.add_bulk({"name": "j", "data": number} for number in range(5))
        async with working(queue, handler, concurrency=2) as worker:
            await log.count(2)
            worker.stop()
            stopped.set()
        assert log.seen == [("began", 0), ("began", 1), ("ended", 0), ("ended", 1)]
        stats = await queue.stats()
        assert (stats.ready, stats.leased) == (3, 0)
        assert {(m.payload, m.deliveries) for m in await queue.admin.peek(9)} == {(2, 0), (3, 0), (4, 0)}


async def test_a_worker_releases_no_job_that_another_took_over(url: str, redis_client: redis.Redis) -> None:
    async with queue_at(url) as queue:
        await queue.add("j", "taken")
        await queue.add("j", "kept")
        found = await queue.run_exchange(operations.turn(queue.engine, "late", Done.nothing(), 2))
        redis_client.xclaim(KEYS.ready, "jobs", "other", 0, [found[0].entry])
        assert await queue.run_exchange(operations.requeue(queue.engine, "late", found)) == 1
        assert [message.payload for message in await queue.admin.peek(9)] == ["kept"]
        assert await queue.run_exchange(operations.heartbeat(queue.engine, "other", [found[0].entry])) == []


async def test_a_cancelled_worker_still_acks_finished_jobs(url: str) -> None:
    log, telling = Log(), asyncio.Event()

    async def handler(job: Job) -> None:
        log.seen.append(job.data)

    async with queue_at(url) as queue:
        await queue.add_bulk({"name": "j", "data": number} for number in range(5))
        worker = Worker(queue, handler, WorkerConfig(concurrency=2, ack_window=3600))
        ask = worker._ask

        async def ask_without_answer(exchange: Any) -> Any:
            if log.seen and exchange.__name__ == "turn" and not telling.is_set():
                telling.set()
                await asyncio.Event().wait()
            return await ask(exchange)

        worker._ask = ask_without_answer  # type: ignore[method-assign]
        running = asyncio.create_task(worker.run())
        await telling.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        stats = await queue.stats()
        assert (log.seen, stats.ready, stats.leased) == ([0, 1], 3, 0)


async def test_a_handler_that_exceeds_the_grace_time_is_cancelled_and_its_job_redelivered(url: str) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job.attempt)
        if job.attempt == 1:
            await asyncio.sleep(30)

    async with queue_at(url, lease=0.3) as queue:
        await queue.add("j")
        async with working(queue, handler, grace=0.05):
            await log.count(1)
        async with working(queue, handler):
            await log.count(2)
    assert log.seen[:2] == [1, 2]


async def test_acks_are_sent_within_the_window_even_while_other_handlers_run(
    url: str, redis_client: redis.Redis
) -> None:
    log, told = Log(), asyncio.Event()

    async def handler(job: Job) -> None:
        if job.name == "slow":
            await told.wait()
        log.seen.append(job.name)

    async with queue_at(url) as queue, working(queue, handler, concurrency=2):
        await queue.add("quick")
        await queue.add("slow")
        await log.until(lambda: log.seen and redis_client.xlen(KEYS.ready) == 1)
        assert log.seen == ["quick"]
        told.set()


async def test_a_worker_leaves_no_consumer_behind(url: str, redis_client: redis.Redis) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job)

    async with queue_at(url) as queue, working(queue, handler):
        await queue.add("j")
        await log.count(1)
    assert redis_client.xinfo_consumers(KEYS.ready, "jobs") == []


async def test_a_damaged_entry_becomes_a_dead_letter_and_leaves_its_neighbours_alone(
    url: str, redis_client: redis.Redis
) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job.data)

    async with queue_at(url) as queue, working(queue, handler):
        await queue.add("j", 1)
        redis_client.xadd(KEYS.ready, {"e": "0 1 0 x b0 "})  # an envelope, though not one of a job
        redis_client.xadd(KEYS.ready, {"e": "0 1 0 y j0 {"})
        await queue.add("j", 2)
        await log.count(3)
        await log.until(lambda: redis_client.llen(KEYS.dead) == 1)
    assert log.seen == [1, b"", 2]


async def test_workers_survive_a_flushed_database(url: str, redis_client: redis.Redis) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job.data)

    async with queue_at(url) as queue, working(queue, handler):
        await queue.add("j", 1)
        await log.count(1)
        redis_client.flushdb()
        await queue.add("j", 2)
        await log.count(2)


async def test_several_workers_share_the_jobs(url: str) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job.data)
        await asyncio.sleep(0)

    async with queue_at(url) as one, queue_at(url) as two, working(one, handler), working(two, handler):
        await one.add_bulk({"name": "j", "data": number} for number in range(2000))
        await log.count(2000)
    assert sorted(log.seen) == list(range(2000))


async def test_a_handler_that_raises_cancelled_error_loses_no_job(url: str) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append((job.data, job.attempt))
        if job.attempt == 1:
            raise asyncio.CancelledError

    async with queue_at(url, lease=0.3) as queue, working(queue, handler, concurrency=1):
        await queue.add("j", "a")
        await queue.add("j", "b")
        await log.until(lambda: {*log.seen} >= {("a", 1), ("b", 1), ("a", 2), ("b", 2)})


async def test_a_late_worker_does_not_undo_what_another_worker_did(url: str, caplog: pytest.LogCaptureFixture) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job.attempt)

    async with queue_at(url, lease=0.2) as queue:
        await queue.add("j")
        await hung(queue)
        async with working(queue, handler):
            await log.count(1)
        from rmq_core.jobs.worker import Delivery, Verdict, fail

        late = Delivery("1-0", b"")
        assert await queue.run_exchange(fail(queue.engine, "hung", late, "x", Verdict(1, 0, "late"))) == b"gone"
        assert (await queue.stats())[:5] == (0, 0, 0, 0, 0)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def one_dead(queue: Any) -> Job:
    await Log().until(queue.peek_dlq)
    (dead,) = await queue.peek_dlq()
    return dead


async def stats_of(url: str) -> Any:
    async with queue_at(url) as queue:
        return await queue.stats()
