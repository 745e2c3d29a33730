"""RMQ and the job libraries without asyncio: each with a queue, and a worker for jobs that do nothing.

Settings are the library's defaults, with these exceptions. Workers run in the measured process: rq as `SimpleWorker`,
which does not fork for every job; celery with the `solo` pool, or `threads` for several concurrent jobs, and without
the messages that workers exchange at the start; dramatiq and huey with threads. No results are kept: `result_ttl=0` of
rq, `ignore_result` of celery, `results=False` of huey; dramatiq keeps none by default.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

from benchmarks.jobs_tally import Clock, Taken, Tally

NAME = "bench"
tally: Tally | None = None
"""The tally that `job` increments; rq finds both by their names."""


def job(data: Any) -> None:  # noqa: ARG001  of every library: handlers take a job
    if tally:
        tally.note()


class SyncLibrary(ABC):
    """The measured operations of a library: adding jobs, and handling them."""

    module: ClassVar[str]

    def __init__(self, port: int, clock: Clock) -> None:
        self.url, self.port, self.clock = f"redis://127.0.0.1:{port}/0", port, clock
        self.library = import_module(self.module)
        self.open()

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def add(self, data: dict[str, Any]) -> None: ...

    @abstractmethod
    def work(self, concurrency: int, count: int, over: threading.Event) -> None:
        """Handle jobs until `over` is set, or `count` of them."""

    def add_many(self, many: Sequence[dict[str, Any]]) -> None:
        for data in many:
            self.add(data)

    def time_adds(self, jobs: Sequence[dict[str, Any]]) -> Taken:
        self.add(jobs[0])  # connects
        began = self.clock.now()
        for data in jobs:
            self.add(data)
        return self.clock.now().since(began).per(len(jobs))

    def time_bulks(self, bulks: Sequence[Sequence[dict[str, Any]]]) -> Taken:
        self.add_many(bulks[0][:1])  # connects
        began = self.clock.now()
        for many in bulks:
            self.add_many(many)
        return self.clock.now().since(began).per(sum(map(len, bulks)))

    def drain(self, concurrency: int, count: int) -> Tally:
        global tally  # noqa: PLW0603  rq calls a function by its name
        over = threading.Event()
        tally = counting = Tally(self.clock, count, over.set)
        self.work(concurrency, count, over)
        tally = None
        return counting


class RmqSync(SyncLibrary):
    """The queue alone: RMQ's workers run on an event loop."""

    module = "rmq_core"

    def open(self) -> None:
        self.queue = self.library.JobQueue(self.url, NAME)

    def add(self, data: dict[str, Any]) -> None:
        self.queue.add("job", data)

    def add_many(self, many: Sequence[dict[str, Any]]) -> None:
        self.queue.add_bulk([{"name": "job", "data": data} for data in many])

    def work(self, concurrency: int, count: int, over: threading.Event) -> None:
        raise NotImplementedError


class Rq(SyncLibrary):
    """A worker that handles one job after another."""

    module = "rq"

    def open(self) -> None:
        self.client = import_module("redis").Redis(port=self.port)
        self.queue = self.library.Queue(NAME, connection=self.client)

    def add(self, data: dict[str, Any]) -> None:
        self.queue.enqueue(job, data, result_ttl=0)

    def add_many(self, many: Sequence[dict[str, Any]]) -> None:
        self.queue.enqueue_many([self.queue.prepare_data(job, (data,), result_ttl=0) for data in many])

    def work(self, concurrency: int, count: int, over: threading.Event) -> None:  # noqa: ARG002
        worker = self.library.SimpleWorker([self.queue], connection=self.client)
        worker.work(burst=True, logging_level="ERROR", max_jobs=count)


class Dramatiq(SyncLibrary):
    """Worker threads, and a thread that fetches jobs for them."""

    module = "dramatiq"

    def open(self) -> None:
        brokers = import_module("dramatiq.brokers.redis")
        self.broker = brokers.RedisBroker(url=self.url)
        self.actor = self.library.actor(broker=self.broker, queue_name=NAME)(job)

    def add(self, data: dict[str, Any]) -> None:
        self.actor.send(data)

    def work(self, concurrency: int, count: int, over: threading.Event) -> None:  # noqa: ARG002
        worker = self.library.Worker(self.broker, worker_threads=concurrency)
        worker.start()
        over.wait()
        worker.stop()


class Celery(SyncLibrary):
    """A single job runs in the thread that fetches it; several concurrent jobs run in a thread pool."""

    module = "celery"

    def open(self) -> None:
        self.app = self.library.Celery(NAME, broker=self.url)
        self.app.conf.task_ignore_result = True
        self.app.conf.worker_hijack_root_logger = False
        self.task = self.app.task(name="job")(job)

    def add(self, data: dict[str, Any]) -> None:
        self.task.delay(data)

    def work(self, concurrency: int, count: int, over: threading.Event) -> None:  # noqa: ARG002
        state = import_module("celery.worker.state")
        state.should_stop = None
        threading.Thread(target=lambda: (over.wait(), setattr(state, "should_stop", 0))).start()
        worker = self.app.Worker(
            pool="solo" if concurrency == 1 else "threads", concurrency=concurrency, loglevel="ERROR", quiet=True,
            without_mingle=True, without_gossip=True, without_heartbeat=True,
        )  # fmt: skip
        worker.start()
        state.should_stop = None


class Huey(SyncLibrary):
    """Worker threads that fetch their own jobs."""

    module = "huey"

    def open(self) -> None:
        self.huey = self.library.RedisHuey(NAME, url=self.url, results=False)
        self.task = self.huey.task(name="job")(job)

    def add(self, data: dict[str, Any]) -> None:
        self.task(data)

    def work(self, concurrency: int, count: int, over: threading.Event) -> None:  # noqa: ARG002
        consumer = self.huey.create_consumer(workers=concurrency, periodic=False, check_worker_health=False)
        consumer.start()
        over.wait()
        consumer.stop(graceful=True)
