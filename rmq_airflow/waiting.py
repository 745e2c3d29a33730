"""Waiting for work through every outage, and what Airflow's metrics hear of it. Nothing is claimed."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

# The triggerer sets these metrics up. The task SDK has others of its own, to which nobody listens in this process.
from airflow.observability.stats import Stats
from airflow.providers.common.compat.sdk import AirflowException
from opentelemetry import trace

from rmq_airflow.wait_hubs import shared_hub
from rmq_core import QueueUnavailable, RedisMessageQueueError

if TYPE_CHECKING:
    from rmq_airflow.threshold import Counted
    from rmq_core import Backlog

RECONNECT_S = (1.0, 5.0)  # drawn at random, so that the triggers of a triggerer do not come back together
MISTAKE_S = (20.0, 40.0)


async def wait_for_work(
    conn_id: str, queue: str, log: Any, *, min_messages: int = 1, max_age: float | None = None
) -> Backlog:
    """Return when there is enough; a Redis that is away is waited for. Raises what waiting cannot mend."""
    away = False
    while True:
        try:
            async with shared_hub(conn_id) as hub:
                backlog = await hub.wait(queue, min_messages=min_messages, max_age=max_age)
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


async def wait_for_ever(
    conn_id: str, queue: str, log: Any, *, min_messages: int = 1, max_age: float | None = None
) -> Backlog:
    """The same for a watcher, which no task stands behind: what is wrong is told in the log until it is mended."""
    while True:
        try:
            return await wait_for_work(conn_id, queue, log, min_messages=min_messages, max_age=max_age)
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
