"""Wait for work, even through outages of Redis, with one hub for each server and event loop. A waiter claims nothing.

Law: a hub exists as long as a trigger uses it. Closing a hub never blocks a trigger: Airflow cancels a trigger's
clean-up again every second, so the hub closes in a task of its own, and the trigger waits only `CLOSING_S` for it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, TypeAlias, TypedDict, TypeVar, get_args
from weakref import WeakKeyDictionary

from airflow import __version__ as airflow_version
from airflow.observability.stats import Stats  # the triggerer sets it up; the metrics of the task SDK's are not sent
from airflow.providers.common.compat.sdk import XCOM_RETURN_KEY, AirflowException
from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSuccessEvent, TriggerEvent
from opentelemetry import trace

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_core import LeasedConfig, QueueUnavailable, RedisMessageQueueError, RedisSettings
from rmq_core.asyncio import WaitHub
from rmq_core.orchestrate import Counted, Threshold
from rmq_core.reports import Backlog, Publication

R = TypeVar("R")
Location: TypeAlias = tuple[RedisSettings, LeasedConfig]
CLOSING_S = 0.3
WAKING = "notification that wakes a trigger"
LOOK_UP_S = 5.0
"""Seconds for which triggers share one look-up of their connection, because a look-up calls the API server."""


@dataclass(slots=True)
class _Shared:
    """A hub and the number of its users."""

    hub: WaitHub
    users: int = 0


@dataclass(slots=True)
class _Place:
    """The hubs and connection look-ups of one event loop."""

    hubs: dict[Location, _Shared] = field(default_factory=dict)
    looking: dict[str, asyncio.Task[Location]] = field(default_factory=dict)
    found: dict[str, tuple[float, Location]] = field(default_factory=dict)
    closing: set[asyncio.Task[None]] = field(default_factory=set)


_places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Place] = WeakKeyDictionary()


@asynccontextmanager
async def shared_hub(redis_queue_conn_id: str) -> AsyncIterator[WaitHub]:
    """Provide the hub of a connection's server. Raises ConfigurationError or AirflowNotFoundException."""
    place = _places.setdefault(asyncio.get_running_loop(), _Place())
    location = await _look_up(place, redis_queue_conn_id)
    if location not in place.hubs:
        place.hubs[location] = _Shared(WaitHub(*location))
    shared = place.hubs[location]
    shared.users += 1
    try:
        yield shared.hub
    finally:
        shared.users -= 1
        if not shared.users:
            del place.hubs[location]
            await _close(place, shared.hub)


async def _location(conn_id: str) -> Location:
    # Importing the client takes longer than Airflow allows a trigger to hold up all others.
    await asyncio.to_thread(import_module, "redis.asyncio")
    return await RedisQueueHook(conn_id).async_location(WAKING)


async def _look_up(place: _Place, conn_id: str) -> Location:
    found_at, location = place.found.get(conn_id, (0.0, None))
    if location is not None and time.monotonic() - found_at < LOOK_UP_S:
        return location
    task = place.looking.get(conn_id)
    if task is None:
        task = place.looking[conn_id] = asyncio.get_running_loop().create_task(_location(conn_id))
        task.add_done_callback(partial(_keep, place, conn_id))
    return await asyncio.shield(task)  # cancelling one trigger must not cancel the look-up that the others share


def _keep(place: _Place, conn_id: str, task: asyncio.Task[Location]) -> None:
    del place.looking[conn_id]
    if not task.cancelled() and task.exception() is None:
        place.found[conn_id] = time.monotonic(), task.result()


async def _close(place: _Place, hub: WaitHub) -> None:
    closing = asyncio.get_running_loop().create_task(hub.aclose(), name="rmq-hub-closing")
    place.closing.add(closing)
    closing.add_done_callback(place.closing.discard)
    await asyncio.wait({closing}, timeout=CLOSING_S)


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


class PublicationReport(TypedDict):
    """The value that a sensor of a publication returns in every mode."""

    queue: str
    publication: str
    messages: int
    acked: int
    dead: int
    removed: int


def report_of(queue: str, found: Publication) -> PublicationReport:
    """Return the XCom value of a sensor whose publication has ended."""
    return {
        "queue": queue,
        "publication": found.name,
        "messages": found.messages,
        "acked": found.acked,
        "dead": found.dead,
        "removed": found.removed,
    }


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

    def __init__(
        self,
        redis_queue: str,
        min_messages: int = 1,
        max_age: float | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        *,
        end_task: bool = False,
        max_messages: int | None = None,
        groups: list[str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are not typed
        self.redis_queue = redis_queue
        self.min_messages = min_messages
        self.max_age = max_age
        self.redis_queue_conn_id = redis_queue_conn_id
        self.end_task = end_task
        self.max_messages = max_messages
        self.groups = groups

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


async def wait_for_work(
    conn_id: str, queue: str, log: Any, enough: Threshold = ANYTHING, groups: list[str] | None = None
) -> Backlog:
    """Wait for enough work of a queue, or of some groups, also while Redis is unavailable.

    Raises errors that waiting cannot fix.
    """
    limits: dict[str, Any] = {"min_messages": enough.min_messages, "max_age": enough.max_age_s, "groups": groups}
    on_pause = partial(tell_paused, log, queue)
    return await _through_outages(conn_id, queue, log, lambda hub: hub.wait(queue, **limits, on_pause=on_pause))


async def wait_for_publication(conn_id: str, queue: str, log: Any, name: str) -> Publication:
    """Wait for the end of a publication, also while Redis is unavailable. Raises errors that waiting cannot fix."""
    return await _through_outages(conn_id, queue, log, lambda hub: hub.wait_for_publication(queue, name))


async def _through_outages(conn_id: str, queue: str, log: Any, wait: Callable[[WaitHub], Awaitable[R]]) -> R:
    away = False
    while True:
        try:
            async with shared_hub(conn_id) as hub:
                found = await wait(hub)
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
            return found


def tell_paused(log: Any, queue: str, backlog: Backlog) -> None:
    """Log why a wait goes on although messages are ready."""
    log.info(
        "Queue %s is paused, with %d messages ready: the wait ends only after `rmq resume %s`, or Resume on its page.",
        queue,
        backlog.ready,
        queue,
    )


async def wait_for_ever(
    conn_id: str, queue: str, log: Any, enough: Threshold = ANYTHING, groups: list[str] | None = None
) -> Backlog:
    """Wait like `wait_for_work`, for a watcher, which has no task that could fail: log each error and try again."""
    return await _in_spite_of_errors(queue, log, lambda: wait_for_work(conn_id, queue, log, enough, groups))


async def groups_with_work(conn_id: str, queue: str, log: Any) -> dict[str, Backlog]:
    """Return the groups of which claims may get messages now, for a watcher, like `wait_for_ever`."""
    return await _in_spite_of_errors(
        queue, log, lambda: _through_outages(conn_id, queue, log, lambda hub: hub.by_group(queue))
    )


async def partitions_with_work(conn_id: str, queue: str, log: Any) -> dict[str, Backlog | Exception]:
    """Return the backlog, or the error, of each queue of a partition that holds messages, like `groups_with_work`."""
    return await _in_spite_of_errors(
        queue, log, lambda: _through_outages(conn_id, queue, log, lambda hub: hub.by_partition(queue))
    )


async def _in_spite_of_errors(queue: str, log: Any, ask: Callable[[], Awaitable[R]]) -> R:
    while True:
        try:
            return await ask()
        except (RedisMessageQueueError, AirflowException) as error:
            # the text says what to do
            log.error("Cannot watch queue %s; trying again: %s: %s", queue, type(error).__name__, error)
            Stats.incr("rmq.trigger.failed", tags={"queue": queue})
            await asyncio.sleep(random.uniform(*MISTAKE_S))


def tell_fired(kind: str, queue: str, backlog: Backlog, count: Counted = "ready") -> None:
    """Report the backlog that made a trigger fire, as metrics and as an event on the span that Airflow opens for it."""
    seen = {f"rmq.queue.{count}": backlog.ready, "rmq.queue.oldest_age": backlog.oldest_age or 0.0}
    for name, value in seen.items():
        Stats.gauge(name, value, tags={"queue": queue})
    _fired(kind, queue, seen)


def tell_ended(queue: str, found: Publication) -> None:
    """Report that a publication has ended, like `tell_fired`."""
    counts = {"messages": found.messages, "dead": found.dead}
    _fired("publication", queue, {f"rmq.publication.{name}": count for name, count in counts.items()})


def _fired(kind: str, queue: str, seen: Mapping[str, float]) -> None:
    Stats.incr("rmq.trigger.fired", tags={"queue": queue, "kind": kind})
    trace.get_current_span().add_event("rmq.trigger.fired", {"rmq.queue": queue, **seen})
