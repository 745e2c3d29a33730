"""The trigger of a deferrable sensor that has to poll, because Redis sends no notification for what it counts.

Law: like a sensor's other trigger, it peeks and never claims. There is no notification when a message becomes a dead
letter or a queue gets long, nor for new work in any discipline but `leased`. So the trigger polls at an interval that
the sensor sets.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from airflow.observability.stats import Stats

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.waiting import SensorTrigger, tell_fired, tell_paused
from rmq_core import QueueUnavailable
from rmq_core.orchestrate import Counted, Threshold, counted
from rmq_core.protocol import AsyncWorkQueue
from rmq_core.reports import Backlog


class RedisQueueDepthTrigger(SensorTrigger):
    """
    Fire once, when a queue holds enough messages of a kind.

    :param redis_queue: the queue to poll
    :param count: ``dead``, ``ready`` or ``depth``, which counts all ready, delayed and leased messages
    :param min_messages: the trigger fires at this number of messages
    :param max_age: the trigger also fires when the oldest ready message is this many seconds old
    :param poll_interval: seconds between two polls
    :param redis_queue_conn_id: connection of type ``redis_queue``
    :param end_task: end the task in the triggerer; otherwise a worker resumes it
    :param max_messages: report at most this many to the tasks downstream, if the trigger ends the task
    """

    def __init__(
        self,
        redis_queue: str,
        count: Counted,
        min_messages: int = 1,
        max_age: float | None = None,
        poll_interval: float = 60.0,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        *,
        end_task: bool = False,
        max_messages: int | None = None,
    ) -> None:
        options: dict[str, Any] = {"end_task": end_task, "max_messages": max_messages}
        super().__init__(redis_queue, min_messages, max_age, redis_queue_conn_id, **options)
        self.count = count
        self.poll_interval = poll_interval

    async def _wait(self) -> dict[str, Any]:
        enough = Threshold(self.min_messages, self.max_age)
        queue = await RedisQueueHook(self.redis_queue_conn_id).async_work_queue(self.redis_queue)
        warned = False
        async with closing(queue):
            while not enough.met_by(found := await self._look(queue)):
                if found.paused and not warned:
                    tell_paused(self.log, self.redis_queue, found)
                warned = found.paused
                # Random pauses: a triggerer starts its triggers at the same time, and they must not poll together.
                await asyncio.sleep(self.poll_interval * random.uniform(0.9, 1.1))
        tell_fired("sensor", self.redis_queue, found, self.count)
        return {"queue": self.redis_queue, self.count: found.ready, "oldest_age": found.oldest_age}

    async def _look(self, queue: AsyncWorkQueue) -> Backlog:
        try:
            if self.count == "ready":
                return await queue.backlog()
            return Backlog(counted(self.count, await queue.stats()), None)
        except QueueUnavailable as error:
            # An exception would fail the task, and a restart of Redis must not fail it.
            self.log.warning("Polling %s continues when Redis is back: %s", self.redis_queue, error)
            Stats.incr("rmq.trigger.redis_unavailable", tags={"queue": self.redis_queue})
            return Backlog(0, None)


@asynccontextmanager
async def closing(queue: AsyncWorkQueue) -> AsyncIterator[None]:
    """Close the queue after the block; `contextlib.aclosing` does not fit, because the coroutine is named `close`."""
    try:
        yield
    finally:
        await queue.close()
