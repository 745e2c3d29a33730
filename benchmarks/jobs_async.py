"""RMQ and the asyncio job libraries, each with a queue, and a worker for jobs that do nothing.

Settings are the library's defaults, with these exceptions. No results are kept, by the library's own option:
`keep_result=0` of arq, `ttl=-1` of saq, `ttl=0` of streaq. By default, arq polls twice a second and takes at most 100
jobs each time; here it polls without a pause and takes 1,000. Only RMQ and chasquimq keep events; no library logs.
Every library runs on Python's own event loop.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar

from benchmarks.jobs_tally import Clock, Taken, Tally

NAME = "bench"


class AsyncLibrary(ABC):
    """The measured operations of a library: adding jobs, and handling them."""

    module: ClassVar[str]

    def __init__(self, port: int, clock: Clock) -> None:
        self.url, self.port, self.clock = f"redis://127.0.0.1:{port}/0", port, clock
        self.library = import_module(self.module)

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def add(self, data: dict[str, Any]) -> None: ...

    @abstractmethod
    async def work(self, concurrency: int, tally: Tally, over: asyncio.Event) -> None:
        """Handle jobs until `over` is set."""

    async def add_many(self, many: Sequence[dict[str, Any]]) -> None:
        for data in many:
            await self.add(data)

    def time_adds(self, jobs: Sequence[dict[str, Any]]) -> Taken:
        return asyncio.run(self._add(jobs))

    def time_bulks(self, bulks: Sequence[Sequence[dict[str, Any]]]) -> Taken:
        return asyncio.run(self._add_bulks(bulks))

    def drain(self, concurrency: int, count: int) -> Tally:
        return asyncio.run(self._drain(concurrency, count))

    async def _add(self, jobs: Sequence[dict[str, Any]]) -> Taken:
        await self.open()
        await self.add(jobs[0])  # connects
        began = self.clock.now()
        for data in jobs:
            await self.add(data)
        taken = self.clock.now().since(began)
        await self.close()
        return taken.per(len(jobs))

    async def _add_bulks(self, bulks: Sequence[Sequence[dict[str, Any]]]) -> Taken:
        await self.open()
        await self.add_many(bulks[0][:1])  # connects
        began = self.clock.now()
        for many in bulks:
            await self.add_many(many)
        taken = self.clock.now().since(began)
        await self.close()
        return taken.per(sum(map(len, bulks)))

    async def _drain(self, concurrency: int, count: int) -> Tally:
        over = asyncio.Event()
        tally = Tally(self.clock, count, over.set)
        await self.work(concurrency, tally, over)
        return tally


class Rmq(AsyncLibrary):
    """Streams, with events."""

    module = "rmq_core.asyncio"

    async def open(self) -> None:
        self.queue = self.library.JobQueue(self.url, NAME)

    async def close(self) -> None:
        await self.queue.close()

    async def add(self, data: dict[str, Any]) -> None:
        await self.queue.add("job", data)

    async def add_many(self, many: Sequence[dict[str, Any]]) -> None:
        await self.queue.add_bulk([{"name": "job", "data": data} for data in many])

    async def work(self, concurrency: int, tally: Tally, over: asyncio.Event) -> None:
        async def handle(job: Any) -> None:  # noqa: ARG001  of every library: handlers take a job
            tally.note()

        await self.open()
        async with self.library.Worker(
            self.queue, handle, import_module("rmq_core.jobs").WorkerConfig(concurrency=concurrency)
        ):
            await over.wait()
        await self.close()


class ChasquiMQ(AsyncLibrary):
    """Streams, read and written by a native engine, with events."""

    module = "chasquimq"

    async def open(self) -> None:
        self.queue = self.library.Queue(NAME, redis_url=self.url)

    async def close(self) -> None:
        await self.queue.close()

    async def add(self, data: dict[str, Any]) -> None:
        await self.queue.add("job", data)

    async def add_many(self, many: Sequence[dict[str, Any]]) -> None:
        await self.queue.add_bulk([{"name": "job", "data": data} for data in many])

    async def work(self, concurrency: int, tally: Tally, over: asyncio.Event) -> None:
        async def handle(job: Any) -> None:  # noqa: ARG001
            tally.note()

        worker = self.library.Worker(NAME, handle, redis_url=self.url, concurrency=concurrency)
        running = asyncio.create_task(worker.run())
        await over.wait()
        await worker.close()
        await running


class Arq(AsyncLibrary):
    """A sorted set that workers poll."""

    module = "arq"

    async def open(self) -> None:
        self.queue = await self.library.create_pool(self._settings())

    async def close(self) -> None:
        await self.queue.aclose()

    async def add(self, data: dict[str, Any]) -> None:
        await self.queue.enqueue_job("job", data)

    async def work(self, concurrency: int, tally: Tally, over: asyncio.Event) -> None:
        async def job(context: Any, data: Any) -> None:  # noqa: ARG001
            tally.note()

        worker = self.library.Worker(
            [self.library.func(job, name="job", keep_result=0)], redis_settings=self._settings(), max_jobs=concurrency,
            poll_delay=0, queue_read_limit=1000, handle_signals=False,
        )  # fmt: skip
        await _until(worker.async_run(), over)
        with suppress(asyncio.CancelledError):  # from jobs that it began after the last counted one
            await worker.close()

    def _settings(self) -> Any:
        return self.library.connections.RedisSettings(port=self.port)


class Saq(AsyncLibrary):
    """A list that workers move jobs from one by one."""

    module = "saq"

    async def open(self) -> None:
        self.queue = self.library.Queue.from_url(self.url)
        await self.queue.connect()

    async def close(self) -> None:
        await self.queue.disconnect()

    async def add(self, data: dict[str, Any]) -> None:
        await self.queue.enqueue("job", data=data, ttl=-1)

    async def work(self, concurrency: int, tally: Tally, over: asyncio.Event) -> None:
        async def job(context: Any, *, data: Any) -> None:  # noqa: ARG001
            tally.note()

        await self.open()
        worker = self.library.Worker(self.queue, [("job", job)], concurrency=concurrency)
        running = asyncio.create_task(worker.start())
        await over.wait()
        worker.event.set()
        await running
        await self.close()


class _Taskiq(AsyncLibrary):
    module = "taskiq_redis"
    broker_name: ClassVar[str]

    async def open(self, tally: Tally | None = None) -> None:
        async def job(data: Any) -> None:  # noqa: ARG001
            if tally:
                tally.note()

        self.broker = getattr(self.library, self.broker_name)(self.url, **self._options())
        self.task = self.broker.register_task(job, task_name="job")
        await self.broker.startup()

    async def close(self) -> None:
        await self.broker.shutdown()

    async def add(self, data: dict[str, Any]) -> None:
        await self.task.kiq(data)

    async def work(self, concurrency: int, tally: Tally, over: asyncio.Event) -> None:
        await self.open(tally)
        receiving = import_module("taskiq.api").run_receiver_task(self.broker, max_async_tasks=concurrency)
        await _until(receiving, over)
        await self.close()

    def _options(self) -> dict[str, Any]:
        return {}


class TaskiqStream(_Taskiq):
    """A stream."""

    broker_name = "RedisStreamBroker"

    def _options(self) -> dict[str, Any]:
        return {"consumer_id": "0"}  # the worker starts after the jobs were added


class TaskiqList(_Taskiq):
    """A list that workers pop jobs from."""

    broker_name = "ListQueueBroker"


class Streaq(AsyncLibrary):
    """Streams, by its own client coredis."""

    module = "streaq"

    async def open(self) -> None:
        self._make(concurrency=1)
        await self.worker.__aenter__()

    async def close(self) -> None:
        await self.worker.__aexit__(None, None, None)

    async def add(self, data: dict[str, Any]) -> None:
        await self.task.enqueue(data)

    async def add_many(self, many: Sequence[dict[str, Any]]) -> None:
        await self.worker.enqueue_many([self.task.enqueue(data) for data in many])

    async def work(self, concurrency: int, tally: Tally, over: asyncio.Event) -> None:
        self._make(concurrency, tally)
        await _until(self.worker.run_async(), over)

    def _make(self, concurrency: int, tally: Tally | None = None) -> None:
        async def job(data: Any) -> None:  # noqa: ARG001
            if tally:
                tally.note()

        self.worker = self.library.Worker(self.url, concurrency=concurrency, handle_signals=False)
        self.task = self.worker.task(ttl=0, name="job", silent=True)(job)


async def _until(running: Any, over: asyncio.Event) -> None:
    """Run a worker until `over` is set, then cancel it. If it fails before, raise its exception."""
    worker, waiting = asyncio.ensure_future(running), asyncio.create_task(over.wait())
    await asyncio.wait({worker, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker
