"""`Worker`: runs job handlers on an event loop.

Invariants: a job is acked only after its handler returned; failing is atomic; a dead worker's jobs are requeued when
its lease expires. Acks are batched: sent with the next fetch or when the ack window ends, whichever is first.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from operator import add
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from rmq_core import errors
from rmq_core.envelope.codec import nonce
from rmq_core.envelope.payloads import one_line
from rmq_core.events import Operation
from rmq_core.exchange import Call, Encodable, Exchange, Listen, Sleep, entries_of
from rmq_core.exchange.scripts import script
from rmq_core.jobs import repeating
from rmq_core.jobs.aio import AsyncJobQueue
from rmq_core.jobs.config import WorkerConfig
from rmq_core.jobs.job import Job, encode_data, job_of, job_without_data
from rmq_core.jobs.state import GROUP, JobsEngine, grouped, prepare, refused
from rmq_core.kernel.settling import without_report
from rmq_core.observe.fact import Observer
from rmq_core.observe.tally import INTERVAL_S
from rmq_core.policy import milliseconds, seconds
from rmq_core.running import is_awaited, reason_of

_PAUSED_S = 1.0  # how often a worker looks whether a paused queue was resumed


class Delivery(NamedTuple):
    """An entry of the stream that a worker holds; `before` counts earlier deliveries that no worker settled."""

    entry: str
    envelope: bytes
    before: int = 0


class Done(NamedTuple):
    """A pending report of a worker: ids that became active or completed, entries to finish, results by job id."""

    active: list[str]
    completed: list[str]
    entries: list[str]
    results: list[tuple[str, bytes]]

    @classmethod
    def nothing(cls) -> Done:
        return cls([], [], [], [])

    def joined(self, later: Done) -> Done:
        """Return one report of both, this one first."""
        return Done._make(map(add, self, later))

    def __bool__(self) -> bool:
        return bool(self.active or self.entries)


class Verdict(NamedTuple):
    """What to do with a failed job. attempts: how many have failed by now. delay_s: None makes it a dead letter."""

    attempts: int
    delay_s: float | None
    reason: str


def turn(engine: JobsEngine, consumer: str, done: Done, count: int) -> Exchange[list[Delivery]]:
    """Report finished jobs and read up to `count` jobs, in one round trip."""
    entries = yield from grouped(engine, lambda: _turn(engine, consumer, done, count))
    if count:
        engine.paused = entries == [b"paused"]
    return [] if engine.paused else _deliveries(entries)


def listen(engine: JobsEngine, consumer: str, count: int, block_ms: int) -> Exchange[list[Delivery]]:
    """Read up to `count` jobs, waiting for the first of them."""
    if engine.paused:  # a read would get the jobs of silent workers all the same
        yield Sleep(min(_PAUSED_S, block_ms / 1000))
        return []
    claim: tuple[Encodable, ...] = ("CLAIM", engine.own_lease_ms) if engine.native else ()
    words = ("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, "BLOCK", block_ms)
    want = Listen((*words, *claim, "STREAMS", engine.keys.ready, ">"), block_ms)
    reply = yield from grouped(engine, lambda: want)
    return _deliveries(entries_of(reply))


def steal(engine: JobsEngine, consumer: str, start: str, count: int) -> Exchange[tuple[str, list[Delivery]]]:
    """Take over jobs of silent workers, if the server cannot do so in a read. Return the next `start`, and the jobs."""
    call = script(
        "jobs/steal", engine.keys, group=GROUP, consumer=consumer, stale_ms=engine.own_lease_ms, start=start, most=count
    )
    reply: Any = yield from grouped(engine, lambda: call)
    return reply[0].decode(), _deliveries(reply[1])


def heartbeat(engine: JobsEngine, consumer: str, entries: Sequence[str]) -> Exchange[list[str]]:
    """Send the heartbeat of these jobs. Return those that the worker no longer holds."""
    lost: list[str] = []
    for first in range(0, len(entries), 1000):
        some = entries[first : first + 1000]
        call = script("jobs/heartbeat", engine.keys, group=GROUP, consumer=consumer, entries=some)
        reply: Any = yield from grouped(engine, lambda call=call: call)  # type: ignore[misc]
        lost += [entry.decode() for entry in reply]
    return lost


def fail(
    engine: JobsEngine,
    consumer: str,
    delivery: Delivery,
    job_id: str,
    verdict: Verdict,
    *,
    stored: bool = False,
    unsent: bool = False,
) -> Exchange[bytes]:
    """Delay a failed job for its retry or make it a dead letter, in one atomic step; `gone` if it is settled already.

    stored: store the failure of a dead letter as its result, which ends `wait_for_result`. unsent: its event `active`
    is not emitted yet.
    """
    keys, config = engine.keys, engine.config
    reply: bytes = yield script(
        "jobs/fail", keys, engine.settings, result=keys.result(job_id), group=GROUP, native=engine.flag,
        entry_id=delivery.entry, attempts=verdict.attempts, to_dead="1" if verdict.delay_s is None else "0",
        delay_ms=0 if verdict.delay_s is None else milliseconds("backoff", verdict.delay_s), consumer=consumer,
        reason=one_line(verdict.reason),
        result_ttl_ms=milliseconds("result_ttl", config.result_ttl) if stored else 0,
        emit_active="1" if unsent else "0",
    )  # fmt: skip
    reply = without_report(engine, reply)
    if reply not in {b"later", b"dead", b"gone"}:
        raise refused("fail", reply)
    return reply


def requeue(engine: JobsEngine, consumer: str, deliveries: Sequence[Delivery]) -> Exchange[int]:
    """Requeue jobs that were not begun, counting no attempt. Jobs that another worker holds by now stay there."""
    back = 0
    for first in range(0, len(deliveries), 500):
        jobs: list[Encodable] = []
        for one in deliveries[first : first + 500]:
            jobs += (one.entry, one.before)
        call = script("jobs/requeue", engine.keys, group=GROUP, consumer=consumer, native=engine.flag, jobs=jobs)
        back += yield from grouped(engine, lambda call=call: call)  # type: ignore[misc]
    return back


def leave(engine: JobsEngine, consumer: str) -> Exchange[bool]:
    """Remove the worker from the consumer group. Return False while it still holds jobs."""
    call = script("jobs/leave", engine.keys, group=GROUP, consumer=consumer)
    try:
        return bool((yield from grouped(engine, lambda: call)) == b"left")
    except errors.QueueFull:  # Redis 6.2 refuses this, too, at its `maxmemory`; a consumer without jobs does no harm
        return False


def _turn(engine: JobsEngine, consumer: str, done: Done, count: int) -> Call:
    keys, config = engine.keys, engine.config
    return script(
        "jobs/turn", keys, engine.settings, results=[keys.result(job_id) for job_id, _ in done.results],
        group=GROUP, consumer=consumer, most=count, native=engine.flag, stale_ms=engine.own_lease_ms,
        result_ttl_ms=milliseconds("result_ttl", config.result_ttl) if done.results else 0,
        active=" ".join(done.active), completed=" ".join(done.completed),
        finished=[value for _, value in done.results] + done.entries,
    )  # fmt: skip


def _deliveries(entries: Any) -> list[Delivery]:
    return [
        Delivery(entry[0].decode(), entry[1][1], entry[3] if len(entry) > 3 else 0)
        for entry in entries or ()
        if entry[1]
    ]


_MOMENT_S = 0.02


class Prefetch:
    """Computes how many jobs to fetch ahead: many quick ones, so that no handler waits for Redis; few slow ones."""

    def __init__(self, most: int) -> None:
        self.most, self.extra = most, 0
        self._rate = 0.0
        self._done, self._since = 0, 0.0

    def note(self, done: int, now: float) -> int:
        """Note that the worker has finished `done` jobs in all by `now`. Return how many extra jobs it may hold."""
        passed = now - self._since
        if passed < _MOMENT_S / 10:
            return self.extra
        rate = (done - self._done) / passed
        self._rate = rate if rate > self._rate else (rate + self._rate) / 2
        self._done, self._since = done, now
        self.extra = min(self.most, int(self._rate * _MOMENT_S))
        return self.extra


Handler: TypeAlias = Callable[[Job], Awaitable[Any]] | Callable[[Job], Any]


class Completed(NamedTuple):
    """The handler returned. `result` is the value to store, None when results are not stored."""

    job: Job
    result: bytes | None


class FailedJob(NamedTuple):
    """The job failed. `job_id` is empty when its envelope could not be read."""

    job_id: str
    verdict: Verdict


class Runner:
    """Calls a handler for each job. The handler is a coroutine function, or a plain one, which runs in a thread."""

    def __init__(self, handler: Handler, config: WorkerConfig, engine: JobsEngine) -> None:
        self._handler, self._config, self._engine = handler, config, engine
        self._threaded = not is_awaited(handler)

    async def run(self, delivery: Delivery, begun: Callable[[Job], object]) -> Completed | FailedJob:
        """Run a job and return its outcome. Calls `begun(job)` just before the handler."""
        try:
            job = job_of(delivery.envelope, delivery.before)
        except errors.UnknownPayloadKind as error:  # a worker of a later version may get it when it is retried
            job = job_without_data(delivery.envelope, delivery.before)
            return FailedJob(job.id, self._verdict(job, error))
        except errors.MalformedMessage as error:
            return FailedJob("", Verdict(delivery.before + 1, None, str(error)))
        if job.attempt > self._limit(job):
            reason = f"{delivery.before} workers died or lost their lease while they held it"
            return FailedJob(job.id, Verdict(job.attempt - 1, None, reason))
        begun(job)
        try:
            value = await (asyncio.to_thread(self._handler, job) if self._threaded else self._handler(job))
            return Completed(job, self._encode(value) if self._config.store_results else None)
        except Exception as error:  # any exception of a handler is a failure of its job
            return FailedJob(job.id, self._verdict(job, error))

    def _limit(self, job: Job) -> int:
        return job.attempts or self._engine.config.max_attempts

    def _verdict(self, job: Job, error: Exception) -> Verdict:
        backoff = job.backoff or self._engine.config.backoff
        final = isinstance(error, errors.UnrecoverableError) or job.attempt >= self._limit(job)
        return Verdict(job.attempt, None if final else backoff.delay(job.attempt), _reason(error))

    def _encode(self, value: Any) -> bytes:
        config = self._engine.config
        kind, data = encode_data(value, config)
        if kind == "b":
            raise errors.PayloadError("a handler must return a JSON value, not bytes, while store_results is set")
        return json.dumps(value).encode() if kind == "s" else data


def _reason(error: Exception) -> str:
    """Return the reason to store in the history. It says "unrecoverable" even if the name of the class does not."""
    if isinstance(error, errors.UnrecoverableError) and type(error) is not errors.UnrecoverableError:
        return f"{errors.UnrecoverableError.__name__} ({type(error).__name__}): {error}"
    return reason_of(error)


class WorkerCounts:
    """Counts the jobs of a worker, and the time from their fetch to their ack. Does nothing without a history."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._since: dict[str, float] = {}

    def fetched(self, deliveries: Sequence[Delivery]) -> None:
        """Count jobs that the worker holds from now on; some of them were taken from silent workers."""
        if self._observer.tally is None or not deliveries:
            return
        self._since.update(dict.fromkeys([one.entry for one in deliveries], monotonic()))
        self._observer.state(Operation.CLAIM, len(deliveries))
        self._observer.state(Operation.RECLAIM, sum([one.before > 0 for one in deliveries]))

    def acked(self, entries: Sequence[str]) -> None:
        """Count jobs whose acks have arrived together. The first and the last are measured, each for half of them."""
        if self._observer.tally is None or not entries:
            return
        first, last = (self._span(entries[place]) for place in (0, -1))
        half = len(entries) // 2
        self._observer.state(Operation.ACK, len(entries) - half, seconds=first)
        self._observer.state(Operation.ACK, half, seconds=last)
        self._forget(entries)

    def failed(self, entry: str, outcome: bytes) -> None:
        """Count a failed job, which waits for its retry or is dead; not one that another worker holds."""
        self._observer.state(Operation.NACK, int(outcome != b"gone"), seconds=self._span(entry))
        self._observer.state(Operation.DEAD, int(outcome == b"dead"))
        self._forget([entry])

    def requeued(self, entries: Sequence[str], count: int) -> None:
        """Count jobs that were returned without being begun."""
        self._observer.state(Operation.RELEASE, count)
        self._forget(entries)

    def _span(self, entry: str) -> float:
        now = monotonic()
        return now - self._since.get(entry, now)

    def _forget(self, entries: Sequence[str]) -> None:
        for entry in entries:
            self._since.pop(entry, None)


R = TypeVar("R")
_log = logging.getLogger("rmq")
_BLOCK_MS = 5000
_MOST = 1000


class Worker:
    """Runs `handler(job)` for each job: a coroutine function, or a plain one in a thread.

    If it raises, the job is retried after its backoff; with no attempts left, or on UnrecoverableError, it becomes a
    dead letter. `run` returns after `stop`; workers may share a queue.
    """

    def __init__(
        self, queue: AsyncJobQueue, handler: Handler, config: WorkerConfig | None = None, *, name: str | None = None
    ) -> None:
        self.queue, self.config = queue, config or WorkerConfig()
        self.name = name or f"{os.uname().nodename}-{os.getpid()}-{nonce()[:8]}"
        self._waiting: deque[Delivery] = deque()
        self._held: dict[str, Delivery] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._runner = Runner(handler, self.config, queue.engine)
        self._done, self._finished = Done.nothing(), 0
        self._counts = WorkerCounts(queue.engine)
        self._prefetch = Prefetch(self.config.prefetch)
        self._room = asyncio.Event()
        self._work = asyncio.Event()
        self._stopping = asyncio.Event()
        self._flush: asyncio.TimerHandle | None = None
        self._telling: set[asyncio.Task[Any]] = set()
        self._fetch_task: asyncio.Task[list[Delivery] | None] | None = None
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Process jobs until `stop`, then shut down gracefully. Raises fatal errors, such as Unsupported."""
        await self._ask(prepare(self.queue.engine))
        reader = asyncio.create_task(self._read())
        parts = [self._start(), self._heartbeat(), self._steal(), self._record()]
        if self.config.schedule:
            parts.append(self._promote())
        tasks = [reader, *map(asyncio.create_task, parts)]
        for task in tasks:
            task.add_done_callback(self._ended)
        try:
            await self._stopping.wait()
            await asyncio.wait([reader])
            if self._failure is not None:
                raise self._failure
            await self._return(list(self._waiting))
            await self._end_handlers()
        finally:
            await _cancel([*tasks, *self._running])
            await self._leave()

    def stop(self) -> None:
        """Start no more jobs, finish running ones, requeue the rest. Returns at once; `run` returns when done."""
        self._stopping.set()
        self._room.set()
        if self._fetch_task is not None:
            self._fetch_task.cancel()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        await self._task

    async def _ask(self, exchange: Exchange[R]) -> R:
        """Run an operation on the worker's queue."""
        return await self.queue.run_exchange(exchange)

    def _begun(self, job: Job) -> None:
        """Record a job's `active` event."""
        if self.queue.config.max_events:
            self._done.active.append(job.id)
            self._flush_soon()

    def _take_unsent(self, job_id: str) -> bool:
        """Return whether a job's `active` event is unsent; if so, remove it, and the caller must send it."""
        if job_id not in self._done.active:
            return False
        self._done.active.remove(job_id)
        return True

    async def _work_on(self, delivery: Delivery) -> None:
        try:
            ended = await self._runner.run(delivery, self._begun)
        except asyncio.CancelledError:
            self._drop(delivery)  # unsettled: it is requeued when its lease expires
            raise
        if isinstance(ended, FailedJob):
            await self._fail(delivery, ended)
        else:
            self._complete(delivery, ended.job, ended.result)

    async def _fail(self, delivery: Delivery, failed: FailedJob) -> None:
        job_id, engine = failed.job_id, self.queue.engine
        options = {"stored": self.config.store_results and bool(job_id), "unsent": self._take_unsent(job_id)}
        try:
            found = await self._ask(fail(engine, self.name, delivery, job_id, failed.verdict, **options))
            self._counts.failed(delivery.entry, found)
        except errors.QueueUnavailable:
            pass  # the lease expires: the job is requeued, the attempt counted
        finally:
            self._settled(delivery)

    def _drop(self, delivery: Delivery) -> None:
        """Forget a job."""
        self._held.pop(delivery.entry, None)
        if len(self._held) <= self._capacity // 2:
            self._room.set()

    def _settled(self, delivery: Delivery) -> None:
        """Count a settled job and forget it."""
        self._finished += 1
        self._drop(delivery)

    def _complete(self, delivery: Delivery, job: Job, result: bytes | None) -> None:
        """Add a finished job's ack to the next batch."""
        if self.queue.config.max_events:
            self._done.completed.append(job.id)
        self._done.entries.append(delivery.entry)
        if result is not None:
            self._done.results.append((job.id, result))
        self._settled(delivery)
        self._flush_soon()

    @property
    def _capacity(self) -> int:
        return self.config.concurrency + self._prefetch.extra

    async def _read(self) -> None:
        """Fetch jobs up to capacity, flushing acks with each fetch."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            self._prefetch.note(self._finished, loop.time())
            room = min(_MOST, self._capacity - len(self._held))
            if room <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            self._accept(await self._report(room) or await self._listen(room))

    async def _listen(self, count: int) -> list[Delivery]:
        """Block for jobs; `stop` cancels only this wait."""
        if self._stopping.is_set():
            return []
        schedule = self._patiently(listen(self.queue.engine, self.name, count, _BLOCK_MS))
        self._fetch_task = asyncio.create_task(schedule)
        try:
            return await self._fetch_task or []
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            return []
        finally:
            self._fetch_task.cancel()

    async def _report(self, count: int = 0) -> list[Delivery]:
        """Flush acks and fetch up to `count` jobs; unconfirmed acks are sent again."""
        done, self._done = self._done, Done.nothing()
        self._cancel_flush()
        try:
            found: list[Delivery] = await self._ask(turn(self.queue.engine, self.name, done, count))
        except (errors.RedisMessageQueueError, asyncio.CancelledError) as error:
            self._done = done.joined(self._done)
            if not isinstance(error, errors.QueueUnavailable):
                raise
            _log.warning("worker %s cannot reach Redis: %s", self.name, error)
            await asyncio.sleep(1)
            return []
        self._counts.acked(done.entries)
        return found

    async def _patiently(self, exchange: Exchange[R]) -> R | None:
        """Run an operation; None if Redis is unreachable."""
        try:
            return await self._ask(exchange)
        except errors.QueueUnavailable as error:
            _log.warning("worker %s cannot reach Redis: %s", self.name, error)
            await asyncio.sleep(1)
            return None

    def _accept(self, found: list[Delivery]) -> None:
        # After a late heartbeat, a worker also reads jobs that it holds itself: skip these.
        fresh = [delivery for delivery in found if delivery.entry not in self._held]
        if fresh:
            self._held.update((delivery.entry, delivery) for delivery in fresh)
            self._waiting.extend(fresh)
            self._counts.fetched(fresh)
            self._work.set()

    async def _start(self) -> None:
        """Start tasks for waiting jobs, up to `concurrency`, while earlier tasks are suspended."""
        while True:
            await self._work.wait()
            self._work.clear()
            while self._waiting and len(self._running) < self.config.concurrency:
                task = asyncio.create_task(self._work_off())
                self._running.add(task)
                task.add_done_callback(self._ended)
                await asyncio.sleep(0)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._telling.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
            self.stop()
        elif self._waiting:
            self._work.set()

    async def _work_off(self) -> None:
        count = 0
        while self._waiting and not self._stopping.is_set():
            await self._work_on(self._waiting.popleft())
            count += 1
            if count % 32 == 0:
                await asyncio.sleep(0)  # yield: handlers that never await would starve the fetcher

    async def _heartbeat(self) -> None:
        """Send heartbeats for held jobs; requeue those not started within one interval."""
        before: set[str] = set()
        while True:
            await asyncio.sleep(self.queue.engine.own_lease_ms / 3000)
            stuck = [delivery for delivery in self._waiting if delivery.entry in before]
            await self._return(stuck)
            before = {delivery.entry for delivery in self._waiting}
            lost = await self._patiently(heartbeat(self.queue.engine, self.name, list(self._held))) or []
            for entry in lost:
                if entry in self._held:
                    _log.warning("worker %s lost job entry %s to another worker", self.name, entry)

    async def _steal(self) -> None:
        """Take over jobs of dead workers periodically, on servers where fetching does not do so."""
        start = "0-0"
        while not self.queue.engine.native:
            await asyncio.sleep(self.queue.engine.own_lease_ms / 4000)
            room = min(100, self._capacity - len(self._held))
            if room > 0:
                taken = await self._patiently(steal(self.queue.engine, self.name, start, room))
                start, found = taken or ("0-0", [])
                self._accept(found)
        await self._stopping.wait()

    async def _record(self) -> None:
        """Send counts to the history once a second. Fetches do not wait for it."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.queue.flush_history()

    async def _promote(self) -> None:
        while True:
            await self._patiently(repeating.promote_and_wait(self.queue.engine))

    def _flush_soon(self) -> None:
        if self._flush is None:
            window_s = seconds("ack_window", self.config.ack_window)
            self._flush = asyncio.get_running_loop().call_later(window_s, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        task = asyncio.create_task(self._report())
        self._telling.add(task)
        task.add_done_callback(self._ended)

    def _cancel_flush(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None

    async def _return(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self._waiting.remove(delivery)
            self._held.pop(delivery.entry, None)
        if deliveries:
            back = await self._patiently(requeue(self.queue.engine, self.name, deliveries))
            self._counts.requeued([one.entry for one in deliveries], back or 0)

    async def _end_handlers(self) -> None:
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds("grace", self.config.grace))

    async def _leave(self) -> None:
        self._cancel_flush()
        await asyncio.gather(*self._telling, return_exceptions=True)
        if self._done:
            await self._report()
        await self._patiently(leave(self.queue.engine, self.name))
        await self.queue.flush_history()


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run_worker(
    redis: Any, name: str, handler: Handler, config: WorkerConfig | None = None, queue_config: Any = None
) -> None:
    """Run a worker in the main thread until SIGTERM or SIGINT; for programs without an event loop."""

    async def work() -> None:
        async with AsyncJobQueue(redis, name, queue_config) as queue:
            worker = Worker(queue, handler, config)
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, worker.stop)
            await worker.run()

    asyncio.run(work())
