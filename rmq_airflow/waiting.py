"""Wait for work, even through outages of Redis, and report metrics to Airflow. A waiter claims nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from functools import partial
from inspect import signature
from typing import Any, TypedDict, get_args

from airflow import __version__ as airflow_version

# The triggerer sets up this `Stats` object. The task SDK has its own; this process would not send its metrics.
from airflow.observability.stats import Stats
from airflow.providers.common.compat.sdk import XCOM_RETURN_KEY, AirflowException
from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSuccessEvent, TriggerEvent
from opentelemetry import trace

from rmq_airflow.wait_hubs import shared_hub
from rmq_core import QueueUnavailable, RedisMessageQueueError
from rmq_core.reports import Backlog
from rmq_core.work import Counted, Threshold

RECONNECT_S = (1.0, 5.0)  # bounds of a random delay, so that the triggers of a triggerer do not reconnect all at once
MISTAKE_S = (20.0, 40.0)
ANYTHING = Threshold()
FAILS_WITH_RETRIES = tuple(map(int, airflow_version.split(".")[:2])) >= (3, 3)
"""Before 3.3, Airflow ignores the retries of a task that its trigger fails."""


class BacklogReport(TypedDict):
    """The value that a sensor returns in every mode: constant in size, and without message ids."""

    queue: str
    ready: int
    oldest_age: float | None


def report(queue: str, backlog: Backlog) -> BacklogReport:
    """Return the XCom value of a sensor that has succeeded."""
    return {"queue": queue, "ready": backlog.ready, "oldest_age": backlog.oldest_age}


def bounded(report: Mapping[str, Any], most: int | None) -> Mapping[str, Any]:
    """Return the report with its count limited to `most`."""
    if most is None:
        return report
    return {name: min(value, most) if name in get_args(Counted) else value for name, value in report.items()}


class QueueTrigger(BaseTrigger):
    """A trigger that Airflow can recreate: it stores each constructor argument in an attribute of the same name."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that recreate this trigger.

        Airflow treats triggers with equal arguments as one trigger.
        """
        made = type(self)
        arguments = {name: getattr(self, name) for name in signature(made).parameters}
        return f"{made.__module__}.{made.__qualname__}", arguments


class SensorTrigger(QueueTrigger):
    """The waiting half of a deferrable sensor.

    With `end_task` it ends the task itself, so that no worker has to say that the wait is over.
    """

    end_task: bool
    max_messages: int | None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event and return, because Airflow kills a trigger that still runs after its task has resumed."""
        try:
            report = await self._wait()
        except (RedisMessageQueueError, AirflowException) as error:
            message = f"{type(error).__name__}: {error}"
            if self.end_task and FAILS_WITH_RETRIES:
                self.log.error("The task fails: %s", message)  # the text says what to do
                yield TaskFailedEvent()
            else:
                yield TriggerEvent({"status": "error", "message": message})
        else:
            if self.end_task:
                yield TaskSuccessEvent(xcoms={XCOM_RETURN_KEY: dict(bounded(report, self.max_messages))})
            else:
                yield TriggerEvent({"status": "success", "report": report})

    async def _wait(self) -> Mapping[str, Any]:
        """Wait until there is enough work, and return the sensor's report."""
        raise NotImplementedError


async def wait_for_work(conn_id: str, queue: str, log: Any, enough: Threshold = ANYTHING) -> Backlog:
    """Wait for enough work, also while Redis is unavailable. Raises errors that waiting cannot fix."""
    away = False
    limits: dict[str, Any] = {"min_messages": enough.min_messages, "max_age": enough.max_age_s}
    while True:
        try:
            async with shared_hub(conn_id) as hub:
                backlog = await hub.wait(queue, **limits, on_pause=partial(tell_paused, log, queue))
        except QueueUnavailable as error:
            # An exception would fail the task or end the watcher, and a restart of Redis must do neither.
            if not away:
                log.warning("Waiting for %s continues when Redis is back: %s", queue, error)
            away = True
            Stats.incr("rmq.trigger.redis_unavailable", tags={"queue": queue})
            await asyncio.sleep(random.uniform(*RECONNECT_S))
        else:
            if away:
                log.info("Redis is back.")
            return backlog


def tell_paused(log: Any, queue: str, backlog: Backlog) -> None:
    """Log why a wait goes on although messages are ready."""
    log.info(
        "Queue %s is paused, with %d messages ready: the wait ends only after `rmq resume %s`, or Resume on its page.",
        queue,
        backlog.ready,
        queue,
    )


async def wait_for_ever(conn_id: str, queue: str, log: Any, enough: Threshold = ANYTHING) -> Backlog:
    """Wait like `wait_for_work`, for a watcher, which has no task that could fail: log each error and try again."""
    while True:
        try:
            return await wait_for_work(conn_id, queue, log, enough)
        except (RedisMessageQueueError, AirflowException) as error:
            log.error(
                "Cannot watch queue %s; trying again: %s: %s", queue, type(error).__name__, error
            )  # the text says what to do
            Stats.incr("rmq.trigger.failed", tags={"queue": queue})
            await asyncio.sleep(random.uniform(*MISTAKE_S))


def tell_fired(kind: str, queue: str, backlog: Backlog, count: Counted = "ready") -> None:
    """Report the backlog that made a trigger fire, as metrics and as an event on the span that Airflow opens for it."""
    seen = {f"rmq.queue.{count}": backlog.ready, "rmq.queue.oldest_age": backlog.oldest_age or 0.0}
    Stats.incr("rmq.trigger.fired", tags={"queue": queue, "kind": kind})
    for name, value in seen.items():
        Stats.gauge(name, value, tags={"queue": queue})
    trace.get_current_span().add_event("rmq.trigger.fired", {"rmq.queue": queue, **seen})
