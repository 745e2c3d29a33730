"""The doorbell of an asset watcher: it rings while there is work, and says nothing but that.

Law: the event names no message and holds no claim. Airflow merges asset events and can leave some without a run; so the
bell is no edge but a level: it rings again as long as the queue holds enough, whatever became of the rings before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from rmq_airflow.claiming import check_queue, check_seconds, threshold_of
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.waiting import QueueTrigger, report, tell_fired, wait_for_ever
from rmq_core.work import Threshold


class RedisQueueDoorbellTrigger(QueueTrigger, BaseEventTrigger):
    """
    Rings an asset when a queue holds enough work, and again every `ring_interval` while it does.

    Every event says ``{"queue", "ready", "oldest_age"}``. The run that it starts claims what is next, until the queue
    is empty; a run that finds nothing succeeds. Set ``max_active_runs`` to how many of them may work side by side.

    :param redis_queue: the queue to watch
    :param min_messages: enough when so many messages are ready
    :param max_age: enough, too, when the oldest ready message is so old: seconds or timedelta
    :param ring_interval: time between two rings: seconds or timedelta
    :param redis_queue_conn_id: connection of type ``redis_queue``
    """

    def __init__(
        self,
        redis_queue: str,
        min_messages: int = 1,
        max_age: timedelta | float | None = None,
        ring_interval: timedelta | float = 10.0,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are not typed
        check_queue(redis_queue, None)
        threshold = threshold_of(min_messages, max_age)
        self.redis_queue = redis_queue
        self.min_messages, self.max_age = threshold.min_messages, threshold.max_age_s
        self.ring_interval = float(check_seconds("ring_interval", ring_interval, least=1) or 1)
        self.redis_queue_conn_id = redis_queue_conn_id

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ring while there is work, for as long as somebody schedules on the asset."""
        enough = Threshold(self.min_messages, self.max_age)
        while True:
            backlog = await wait_for_ever(self.redis_queue_conn_id, self.redis_queue, self.log, enough)
            tell_fired("doorbell", self.redis_queue, backlog)
            yield TriggerEvent(report(self.redis_queue, backlog))
            await asyncio.sleep(self.ring_interval)
