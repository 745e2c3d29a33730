"""The doorbell trigger of an asset watcher: its events say only that there is work.

Law: the event names no message and holds no claim. Airflow merges asset events and may start no run for some of them.
So the trigger is level-triggered, not edge-triggered: it emits another event as long as the queue holds enough
messages, whether or not earlier events started a run. But each event may create a run; so while nothing is claimed, the
next event comes later each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from datetime import timedelta

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from rmq_airflow.batch import check_groups, check_queue, check_seconds, threshold_of
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.waiting import QueueTrigger, report, tell_fired, wait_for_ever
from rmq_core.orchestrate import Threshold, repeat_after_s
from rmq_core.reports import Backlog


class RedisQueueDoorbellTrigger(QueueTrigger, BaseEventTrigger):
    """
    Emit an asset event when a queue holds enough work, and another every `repeat_interval` while it does.

    As long as nothing is claimed, each event doubles this interval, up to ten minutes; the log says so. A paused queue
    emits no event. Every event contains ``{"queue", "ready", "oldest_age"}``. The run that it starts claims the next
    messages until the queue is empty; a run that finds none succeeds. Set ``max_active_runs`` to the number of runs
    that may work at once.

    :param redis_queue: the queue to watch
    :param min_messages: emit an event when this number of messages is ready
    :param max_age: emit an event, too, when the oldest ready message has this age: seconds or timedelta
    :param repeat_interval: time between two events: seconds or timedelta
    :param redis_queue_conn_id: connection of type ``redis_queue``
    :param groups: only messages of these groups count, in a queue that has groups; the run has to claim from the same
        ones
    """

    def __init__(
        self,
        redis_queue: str,
        min_messages: int = 1,
        max_age: timedelta | float | None = None,
        repeat_interval: timedelta | float = 10.0,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        groups: Collection[str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are not typed
        check_queue(redis_queue, None)
        threshold = threshold_of(min_messages, max_age)
        self.redis_queue = redis_queue
        self.min_messages, self.max_age = threshold.min_messages, threshold.max_age_s
        self.repeat_interval = float(check_seconds("repeat_interval", repeat_interval, least=1) or 1)
        self.redis_queue_conn_id = redis_queue_conn_id
        self.groups = check_groups(groups)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Emit events while there is work, as long as a DAG is scheduled on the asset."""
        enough = Threshold(self.min_messages, self.max_age)
        fence, in_vain, rests_until, clock = None, 0, 0.0, asyncio.get_running_loop().time
        where = self.redis_queue_conn_id, self.redis_queue, self.log
        while True:
            backlog = await wait_for_ever(*where, enough, self.groups)
            if backlog.fence != fence:
                in_vain = 0
            if not in_vain or clock() >= rests_until:
                tell_fired("doorbell", self.redis_queue, backlog)
                yield TriggerEvent(report(self.redis_queue, backlog))
                rest_s = repeat_after_s(self.repeat_interval, in_vain)
                self._tell_in_vain(backlog, in_vain, rest_s)
                fence, in_vain, rests_until = backlog.fence, in_vain + 1, clock() + rest_s
            await asyncio.sleep(self.repeat_interval)  # a claim ends the rest

    def _tell_in_vain(self, backlog: Backlog, in_vain: int, rest_s: float) -> None:
        if in_vain:
            self.log.warning(
                "Queue %s has %d messages ready, and nothing was claimed since the last %d event(s); the next event"
                " comes after %g s, or a claim. Do runs of the DAG start, and do they claim from this queue?",
                self.redis_queue,
                backlog.ready,
                in_vain,
                rest_s,
            )
