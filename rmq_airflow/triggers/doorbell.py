"""The doorbell trigger of an asset watcher: its events say only that there is work.

Law: the event names no message and holds no claim. Airflow merges asset events and may start no run for some of them.
So the trigger is level-triggered, not edge-triggered: it emits another event (a ring) as long as the queue holds enough
messages, whether or not earlier events started a run.
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
    Emit an asset event when a queue holds enough work, and another every `ring_interval` while it does.

    Every event contains ``{"queue", "ready", "oldest_age"}``. The run that it starts claims the next messages until the
    queue is empty; a run that finds none succeeds. Set ``max_active_runs`` to the number of runs that may work at once.

    :param redis_queue: the queue to watch
    :param min_messages: emit an event when this number of messages is ready
    :param max_age: emit an event, too, when the oldest ready message has this age: seconds or timedelta
    :param ring_interval: time between two events: seconds or timedelta
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
        """Emit events while there is work, as long as a DAG is scheduled on the asset."""
        enough = Threshold(self.min_messages, self.max_age)
        while True:
            backlog = await wait_for_ever(self.redis_queue_conn_id, self.redis_queue, self.log, enough)
            tell_fired("doorbell", self.redis_queue, backlog)
            yield TriggerEvent(report(self.redis_queue, backlog))
            await asyncio.sleep(self.ring_interval)
