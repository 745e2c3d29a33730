"""`Worker`: runs job handlers on an event loop.

Invariants: a job is acked only after its handler returned; failing is atomic; a dead worker's jobs are requeued when
its lease expires. Acks are batched: sent with the next fetch or when the ack window ends, whichever is first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from types import TracebackType
from typing import Any, Self, TypeVar

from rmq_core.discipline.jobs.aio import AsyncJobQueue
from rmq_core.discipline.jobs.config import WorkerConfig
from rmq_core.discipline.jobs.engine import prepare
from rmq_core.discipline.jobs.job import Job
from rmq_core.discipline.jobs.operations import waiting, working
from rmq_core.discipline.jobs.operations.working import Delivery, Done
from rmq_core.discipline.jobs.prefetch import Prefetch
from rmq_core.discipline.jobs.runner import FailedJob, Handler, Runner
from rmq_core.discipline.jobs.worker_counts import WorkerCounts
from rmq_core.envelope.ids import nonce
from rmq_core.errors import QueueUnavailable, RedisMessageQueueError
from rmq_core.exchange import Exchange
from rmq_core.observe.tally import INTERVAL_S
from rmq_core.policy import seconds

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
        self._runner = Runner(handler, self.config, queue.config)
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
        parts = [
            self._start(),
            self._beat(),
            self._steal(),
            self._record(),
            *([self._promote()] if self.config.schedule else []),
        ]
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
            found = await self._ask(working.fail(engine, self.name, delivery, job_id, failed.verdict, **options))
            self._counts.failed(delivery.entry, found)
        except QueueUnavailable:
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
            self._accept(await self._tell(room) or await self._listen(room))

    async def _listen(self, count: int) -> list[Delivery]:
        """Block for jobs; `stop` cancels only this wait."""
        if self._stopping.is_set():
            return []
        waiting = self._patiently(working.listen(self.queue.engine, self.name, count, _BLOCK_MS))
        self._fetch_task = asyncio.create_task(waiting)
        try:
            return await self._fetch_task or []
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            return []
        finally:
            self._fetch_task.cancel()

    async def _tell(self, count: int = 0) -> list[Delivery]:
        """Flush acks and fetch up to `count` jobs; unconfirmed acks are sent again."""
        done, self._done = self._done, Done.nothing()
        self._cancel_flush()
        try:
            found: list[Delivery] = await self._ask(working.turn(self.queue.engine, self.name, done, count))
        except (RedisMessageQueueError, asyncio.CancelledError) as error:
            self._done = done.joined(self._done)
            if not isinstance(error, QueueUnavailable):
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
        except QueueUnavailable as error:
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

    async def _beat(self) -> None:
        """Send heartbeats for held jobs; requeue those not started within one interval."""
        before: set[str] = set()
        while True:
            await asyncio.sleep(self.queue.engine.own_lease_ms / 3000)
            stuck = [delivery for delivery in self._waiting if delivery.entry in before]
            await self._return(stuck)
            before = {delivery.entry for delivery in self._waiting}
            lost = await self._patiently(working.beat(self.queue.engine, self.name, list(self._held))) or []
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
                taken = await self._patiently(working.steal(self.queue.engine, self.name, start, room))
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
            await self._patiently(waiting.promote_and_wait(self.queue.engine))

    def _flush_soon(self) -> None:
        if self._flush is None:
            window_s = seconds("ack_window", self.config.ack_window)
            self._flush = asyncio.get_running_loop().call_later(window_s, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        task = asyncio.create_task(self._tell())
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
            back = await self._patiently(working.requeue(self.queue.engine, self.name, deliveries))
            self._counts.requeued([one.entry for one in deliveries], back or 0)

    async def _end_handlers(self) -> None:
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds("grace", self.config.grace))

    async def _leave(self) -> None:
        self._cancel_flush()
        await asyncio.gather(*self._telling, return_exceptions=True)
        if self._done:
            await self._tell()
        await self._patiently(working.leave(self.queue.engine, self.name))
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
