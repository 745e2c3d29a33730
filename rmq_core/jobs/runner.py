"""Running one job: what its handler returns or raises decides what becomes of it."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import TYPE_CHECKING, Any

from rmq_core.errors import MalformedMessage, PayloadError, QueueUnavailable, UnrecoverableError
from rmq_core.facade.process import reason_of
from rmq_core.jobs.job import Job, encode_data, job_of
from rmq_core.jobs.operations import working
from rmq_core.jobs.operations.working import Delivery, Verdict

if TYPE_CHECKING:
    from rmq_core.jobs.worker import Handler, Worker


class Runner:
    """Hands jobs to the handler of a worker and tells the worker of the outcome."""

    def __init__(self, worker: Worker, handler: Handler) -> None:
        self._worker, self._handler = worker, handler
        self._threaded = not inspect.iscoroutinefunction(handler) and not inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004  an object whose call is a coroutine function
        )

    async def run(self, delivery: Delivery) -> None:
        worker = self._worker
        try:
            job = job_of(delivery.envelope, delivery.before)
        except MalformedMessage as error:
            await self._fail(delivery, "", Verdict(delivery.before + 1, None, str(error)))
            return
        if job.attempt > self._limit(job):
            reason = f"{delivery.before} workers died, or lost their lease, with it"
            await self._fail(delivery, job.id, Verdict(job.attempt - 1, None, reason))
            return
        worker.begun(job)
        try:
            value = await (asyncio.to_thread(self._handler, job) if self._threaded else self._handler(job))
            result = self._encode(value) if worker.config.store_results else None
        except asyncio.CancelledError:
            worker.abandoned(delivery)
            raise
        except Exception as error:  # noqa: BLE001  whatever a handler raises is its job's failure
            await self._fail(delivery, job.id, self._verdict(job, error))
        else:
            worker.completed(delivery, job, result)

    def _limit(self, job: Job) -> int:
        return job.attempts or self._worker.queue.config.max_attempts

    def _verdict(self, job: Job, error: Exception) -> Verdict:
        backoff = job.backoff or self._worker.queue.config.backoff
        final = isinstance(error, UnrecoverableError) or job.attempt >= self._limit(job)
        return Verdict(job.attempt, None if final else backoff.delay(job.attempt), _reason(error))

    def _encode(self, value: Any) -> bytes:
        config = self._worker.queue.config
        kind, data = encode_data(value, config.max_payload_bytes, config.max_payload_depth)
        if kind == "b":
            raise PayloadError("a handler must return what JSON has, not bytes, while store_results is set")
        return json.dumps(value).encode() if kind == "s" else data

    async def _fail(self, delivery: Delivery, job_id: str, verdict: Verdict) -> None:
        worker = self._worker
        stored = worker.config.store_results and bool(job_id)
        untold = worker.untold(job_id)
        exchange = working.fail(
            worker.queue.engine, worker.name, delivery, job_id, verdict, stored=stored, untold=untold
        )
        try:
            await worker.ask(exchange)
        except QueueUnavailable:
            pass  # the lease ends, and the job comes back with one attempt more
        finally:
            worker.settled(delivery)


def _reason(error: Exception) -> str:
    """What history keeps of a failure: that it was unrecoverable, too, when the name of its class does not say so."""
    if isinstance(error, UnrecoverableError) and type(error) is not UnrecoverableError:
        return f"{UnrecoverableError.__name__} ({type(error).__name__}): {error}"
    return reason_of(error)
