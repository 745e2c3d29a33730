"""Runs one job: the return value or exception of its handler decides the outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from rmq_core.discipline.jobs.config import JobsConfig, WorkerConfig
from rmq_core.discipline.jobs.job import Job, encode_data, job_of, job_without_data
from rmq_core.discipline.jobs.operations.working import Delivery, Verdict
from rmq_core.errors import MalformedMessage, PayloadError, UnknownPayloadKind, UnrecoverableError
from rmq_core.queue.process import reason_of
from rmq_core.queue.running import is_awaited

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

    def __init__(self, handler: Handler, config: WorkerConfig, queue_config: JobsConfig) -> None:
        self._handler, self._config, self._queue_config = handler, config, queue_config
        self._threaded = not is_awaited(handler)

    async def run(self, delivery: Delivery, begun: Callable[[Job], object]) -> Completed | FailedJob:
        """Run a job and return its outcome. Calls `begun(job)` just before the handler."""
        try:
            job = job_of(delivery.envelope, delivery.before)
        except UnknownPayloadKind as error:  # a worker of a later version may get it when it is retried
            job = job_without_data(delivery.envelope, delivery.before)
            return FailedJob(job.id, self._verdict(job, error))
        except MalformedMessage as error:
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
        return job.attempts or self._queue_config.max_attempts

    def _verdict(self, job: Job, error: Exception) -> Verdict:
        backoff = job.backoff or self._queue_config.backoff
        final = isinstance(error, UnrecoverableError) or job.attempt >= self._limit(job)
        return Verdict(job.attempt, None if final else backoff.delay(job.attempt), _reason(error))

    def _encode(self, value: Any) -> bytes:
        config = self._queue_config
        kind, data = encode_data(value, config)
        if kind == "b":
            raise PayloadError("a handler must return a JSON value, not bytes, while store_results is set")
        return json.dumps(value).encode() if kind == "s" else data


def _reason(error: Exception) -> str:
    """Return the reason to store in the history. It says "unrecoverable" even if the name of the class does not."""
    if isinstance(error, UnrecoverableError) and type(error) is not UnrecoverableError:
        return f"{UnrecoverableError.__name__} ({type(error).__name__}): {error}"
    return reason_of(error)
