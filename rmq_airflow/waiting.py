"""Waiting for work through every outage, and what Airflow's metrics hear of it. Nothing is claimed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from inspect import signature
from typing import Any, TypedDict

# The triggerer sets these metrics up. The task SDK has others of its own, to which nobody listens in this process.
from airflow.observability.stats import Stats
from airflow.providers.common.compat.sdk import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from opentelemetry import trace

from rmq_airflow.wait_hubs import shared_hub
from rmq_core import Backlog, QueueUnavailable, RedisMessageQueueError
from rmq_core.work import Counted, Threshold

RECONNECT_S = (1.0, 5.0)  # drawn at random, so that the triggers of a triggerer do not come back together
MISTAKE_S = (20.0, 40.0)
ANYTHING = Threshold()


class BacklogReport(TypedDict):
    """What a sensor returns, in every mode: constant in size, and naming no message."""

    queue: str
    ready: int
    oldest_age: float | None


def report(queue: str, backlog: Backlog) -> BacklogReport:
    """The XCom value of a sensor that is done."""
    return {"queue": queue, "ready": backlog.ready, "oldest_age": backlog.oldest_age}


class QueueTrigger(BaseTrigger):
    """A trigger that is made again from the arguments of its constructor, which it keeps under their names."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and the arguments that make this trigger again; equal arguments are one trigger to Airflow."""
        made = type(self)
        arguments = {name: getattr(self, name) for name in signature(made).parameters}
        return f"{made.__module__}.{made.__qualname__}", arguments


class SensorTrigger(QueueTrigger):
    """The waiting half of a deferrable sensor."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event and return, as a trigger that lingers is killed after its task has resumed."""
        try:
            report = await self._wait()
        except (RedisMessageQueueError, AirflowException) as error:
            yield TriggerEvent({"status": "error", "message": f"{type(error).__name__}: {error}"})
        else:
            yield TriggerEvent({"status": "success", "report": report})

    async def _wait(self) -> Mapping[str, Any]:
        """What the sensor returns, as soon as there is enough."""
        raise NotImplementedError


async def wait_for_work(conn_id: str, queue: str, log: Any, enough: Threshold = ANYTHING) -> Backlog:
    """Return when there is enough; a Redis that is away is waited for. Raises what waiting cannot mend."""
    away = False
    while True:
        try:
            async with shared_hub(conn_id) as hub:
                backlog = await hub.wait(queue, min_messages=enough.min_messages, max_age=enough.max_age_s)
        except QueueUnavailable as error:
            # An exception would fail the task, or end the watcher: a restart of Redis must do neither.
            if not away:
                log.warning("Waiting for %s goes on when Redis is back: %s", queue, error)
            away = True
            Stats.incr("rmq.trigger.redis_unavailable", tags={"queue": queue})
            await asyncio.sleep(random.uniform(*RECONNECT_S))
        else:
            if away:
                log.info("Redis is back.")
            return backlog


async def wait_for_ever(conn_id: str, queue: str, log: Any, enough: Threshold = ANYTHING) -> Backlog:
    """The same for a watcher, which no task stands behind: what is wrong is told in the log until it is mended."""
    while True:
        try:
            return await wait_for_work(conn_id, queue, log, enough)
        except (RedisMessageQueueError, AirflowException) as error:
            log.error("Cannot watch queue %s, and try again: %s: %s", queue, type(error).__name__, error)  # noqa: TRY400  the text says what to do
            Stats.incr("rmq.trigger.failed", tags={"queue": queue})
            await asyncio.sleep(random.uniform(*MISTAKE_S))


def tell_fired(kind: str, queue: str, backlog: Backlog, count: Counted = "ready") -> None:
    """Tell what a trigger saw when it fired, by metrics and on the span that Airflow opens for it."""
    seen = {f"rmq.queue.{count}": backlog.ready, "rmq.queue.oldest_age": backlog.oldest_age or 0.0}
    Stats.incr("rmq.trigger.fired", tags={"queue": queue, "kind": kind})
    for name, value in seen.items():
        Stats.gauge(name, value, tags={"queue": queue})
    trace.get_current_span().add_event("rmq.trigger.fired", {"rmq.queue": queue, **seen})
