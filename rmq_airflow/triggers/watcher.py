"""The doorbell trigger of an asset watcher: its events say only that there is work.

Law: the event names no message and holds no claim. An event is not a run: Airflow merges events (up to 3.3 by itself,
later if told to), and starts none for those of a paused DAG. So the trigger is level-triggered, not edge-triggered: it
emits another event as long as the queue holds enough messages, whether or not earlier events started a run. But each
event may create a run; so while nothing is claimed, the next event comes later each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from rmq_airflow.batch import check_queue, check_seconds, threshold_of
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.waiting import (
    QueueTrigger,
    groups_with_work,
    partitions_with_work,
    report,
    tell_fired,
    wait_for_ever,
)
from rmq_core import ConfigurationError
from rmq_core.orchestrate import Threshold, chosen_groups, repeat_after_s
from rmq_core.reports import Backlog

SLACK_S = 0.2
"""By how much two looks may disagree about the time at which the oldest message was published."""


class RedisQueueDoorbellTrigger(QueueTrigger, BaseEventTrigger):
    """
    Emit an asset event when a queue holds enough work, and another every `repeat_interval` while it does.

    As long as nothing is claimed, each event doubles this interval, up to ten minutes; the log says so. A paused queue
    emits no event. Every event contains ``{"queue", "ready", "oldest_age"}``, and with ``groups`` or ``each_group`` the
    names of its ``groups``, with ``each_partition`` its ``partition``. The run that it starts claims the next messages
    until the queue, or these groups, are empty; a run that finds none succeeds. Set ``max_active_runs`` to the number
    of runs that may work at once.

    :param redis_queue: the queue to watch
    :param min_messages: emit an event when this number of messages is ready
    :param max_age: emit an event, too, when the oldest ready message has this age: seconds or timedelta
    :param repeat_interval: time between two events: seconds or timedelta
    :param redis_queue_conn_id: connection of type ``redis_queue``
    :param groups: only messages of these groups count, in a queue that has groups; the run has to claim from the same
        ones. No templates: Airflow renders none in watchers
    :param each_group: an event for each group that has enough work, instead of one for all; `min_messages`, `max_age`
        and the time between two events then count for each group
    :param each_partition: an event for each leased queue ``<redis_queue>/<partition>`` that has enough work, those that
        appear later included; its ``queue`` is that queue. The trigger does not wait for a notification of each, but
        looks every `repeat_interval`, so an event comes up to so much later. Not with ``groups`` or ``each_group``
    """

    def __init__(
        self,
        redis_queue: str,
        min_messages: int = 1,
        max_age: timedelta | float | None = None,
        repeat_interval: timedelta | float = 10.0,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        groups: Collection[str] | None = None,
        each_group: bool = False,
        each_partition: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are not typed
        check_queue(redis_queue, None)
        threshold = threshold_of(min_messages, max_age)
        self.redis_queue = redis_queue
        self.min_messages, self.max_age = threshold.min_messages, threshold.max_age_s
        self.repeat_interval = float(check_seconds("repeat_interval", repeat_interval, least=1) or 1)
        self.redis_queue_conn_id = redis_queue_conn_id
        if groups is not None:
            chosen_groups(groups)
        for name, value in {"each_group": each_group, "each_partition": each_partition}.items():
            if not isinstance(value, bool):
                raise ConfigurationError(f"`{name}` must be True or False, not {value!r}")
        if each_partition and (each_group or groups is not None):
            raise ConfigurationError("`each_partition` watches queues, not groups: leave `groups` and `each_group` out")
        # Airflow takes equal arguments for one trigger, and the order of a set is another one in each process.
        self.groups = None if groups is None else sorted(set(groups))
        self.each_group = each_group
        self.each_partition = each_partition
        self._told: set[str] = set()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Emit events while there is work, as long as a DAG is scheduled on the asset."""
        bells: dict[str | None, _Bell] = {}
        clock = asyncio.get_running_loop().time
        while True:
            found = await self._look()
            some = self.each_group or self.groups is not None
            bells = {group: bells.get(group) or _Bell(some) for group in found}
            ages = [backlog.oldest_age for backlog in found.values() if backlog.oldest_age is not None]
            together = Backlog(sum(backlog.ready for backlog in found.values()), max(ages, default=None))
            for part, backlog in found.items():
                bell = bells[part]
                if bell.rings(backlog, clock()):
                    event = self._event(part, backlog)
                    tell_fired("doorbell", event["queue"], backlog if self.each_partition else together)
                    yield TriggerEvent(event)
                    rest_s = repeat_after_s(self.repeat_interval, bell.in_vain)
                    self._tell_in_vain(event, bell.in_vain, rest_s)
                    bell.rang(clock() + rest_s)
            await asyncio.sleep(self.repeat_interval)  # a claim ends the rest

    async def _look(self) -> dict[str | None, Backlog]:
        """Return the backlogs that reach the threshold, by partition or group; under None without these.

        For partitions it returns at once, else it waits until a backlog reaches the threshold.
        """
        where = self.redis_queue_conn_id, self.redis_queue, self.log
        enough = Threshold(self.min_messages, self.max_age)
        if self.each_partition:
            seen = await partitions_with_work(*where)
            self._tell_unheard(seen)
            return {name: found for name, found in seen.items() if isinstance(found, Backlog) and enough.met_by(found)}
        if not self.each_group:
            return {None: await wait_for_ever(*where, enough, self.groups)}
        await wait_for_ever(*where, groups=self.groups)
        return {
            name: backlog
            for name, backlog in (await groups_with_work(*where)).items()
            if enough.met_by(backlog) and (self.groups is None or name in self.groups)
        }

    def _event(self, part: str | None, backlog: Backlog) -> dict[str, Any]:
        if self.each_partition:
            return {**report(f"{self.redis_queue}/{part}", backlog), "partition": part}
        groups = self.groups if part is None else [part]
        found = report(self.redis_queue, backlog)
        return {**found} if groups is None else {**found, "groups": groups}

    def _tell_unheard(self, seen: Mapping[str, Backlog | Exception]) -> None:
        """Log once, for as long as it lasts, why a partition with messages emits no event."""
        why = {
            f"{self.redis_queue}/{name}": "is paused" if isinstance(found, Backlog) else f"cannot be read: {found}"
            for name, found in seen.items()
            if not isinstance(found, Backlog) or found.paused
        }
        told = {f"Queue {queue} emits no event: it {reason}" for queue, reason in why.items()}
        for text in sorted(told - self._told):
            self.log.warning(text)
        self._told = told

    def _tell_in_vain(self, event: Mapping[str, Any], in_vain: int, rest_s: float) -> None:
        if in_vain:
            self.log.warning(
                "Queue %s has %d messages ready%s, and nothing was claimed since the last %d event(s); the next event"
                " comes after %g s, or a claim. Do runs of the DAG start, and do they claim from this queue?",
                event["queue"],
                event["ready"],
                f" in group {event['groups'][0]!r}" if self.each_group else "",
                in_vain,
                rest_s,
            )


@dataclass(slots=True)
class _Bell:
    """The events about one queue, or about some groups of it, since messages of them were last claimed."""

    some_groups: bool
    in_vain: int = 0
    rests_until: float = 0.0
    seen: Backlog | None = None
    seen_at: float = 0.0

    def rings(self, backlog: Backlog, now: float) -> bool:
        """Return whether an event is due: messages were claimed since the last look, or the rest is over."""
        if self.seen is not None and self._claimed(self.seen, backlog, now - self.seen_at):
            self.in_vain = 0
        self.seen, self.seen_at = backlog, now
        return not self.in_vain or now >= self.rests_until

    def rang(self, rests_until: float) -> None:
        """Note that an event was emitted."""
        self.in_vain, self.rests_until = self.in_vain + 1, rests_until

    def _claimed(self, before: Backlog, backlog: Backlog, passed_s: float) -> bool:
        if backlog.fence == before.fence or not self.some_groups:
            return backlog.fence != before.fence
        # The fence counts claims of any group. Those of this one take its oldest messages.
        if backlog.ready < before.ready or backlog.oldest_age is None or before.oldest_age is None:
            return True
        return backlog.oldest_age < before.oldest_age + passed_s - SLACK_S
