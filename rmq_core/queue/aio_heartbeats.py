"""Heartbeats on asyncio: one task per event loop extends every lease in use. See `heartbeats`.

The task starts one task per queue for each round, so that a server that hangs delays no other server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from rmq_core.errors import RedisMessageQueueError
from rmq_core.messages import Lease
from rmq_core.queue.heartbeats import Heartbeat, settle_beat

_log = logging.getLogger("rmq")


class AsyncExtender(Protocol):
    """The part of a queue that a heartbeat uses."""

    async def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
        """Extend leases in one write; return False for each that is lost."""
        ...  # pragma: no cover


class HeartbeatTask:
    """The heartbeats of an event loop and the task that sends them; the task runs while there are heartbeats."""

    def __init__(self) -> None:
        self._heartbeats: set[Heartbeat[AsyncExtender]] = set()
        self._changed = asyncio.Event()
        self._beating: dict[AsyncExtender, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, heartbeat: Heartbeat[AsyncExtender]) -> None:
        self._heartbeats.add(heartbeat)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rmq-heartbeat")

    def remove(self, heartbeat: Heartbeat[AsyncExtender]) -> None:
        self._heartbeats.discard(heartbeat)
        if not self._heartbeats:
            self._changed.set()

    def end_all(self) -> None:
        """Stop, in a forked child: no heartbeat of the parent reports the deadlines of its leases there."""
        for heartbeat in self._heartbeats:
            heartbeat.end()

    async def _run(self) -> None:
        try:
            while self._heartbeats or self._beating:
                await self._send_due()
        finally:
            if not self._heartbeats:  # the entry refers to its event loop: if it stayed, both would stay in memory
                _tasks_of.pop(asyncio.get_running_loop(), None)

    async def _send_due(self) -> None:
        now = time.monotonic()
        free = [heartbeat for heartbeat in self._heartbeats if heartbeat.queue not in self._beating]
        due = [heartbeat for heartbeat in free if heartbeat.next_at <= now]
        for queue in {heartbeat.queue for heartbeat in due}:
            self._begin(queue, [heartbeat for heartbeat in due if heartbeat.queue is queue])
        later = [heartbeat.next_at for heartbeat in free if heartbeat.next_at > now]
        await self._sleep(min(later) - now if later else None)

    def _begin(self, queue: AsyncExtender, due: list[Heartbeat[AsyncExtender]]) -> None:
        beating = asyncio.get_running_loop().create_task(self._beat(queue, due), name="rmq-beat")
        self._beating[queue] = beating
        beating.add_done_callback(lambda _: self._end(queue))

    def _end(self, queue: AsyncExtender) -> None:
        del self._beating[queue]
        self._changed.set()

    async def _sleep(self, delay_s: float | None) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(delay_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _beat(self, queue: AsyncExtender, due: list[Heartbeat[AsyncExtender]]) -> None:
        sent, kept = time.monotonic(), []
        try:
            kept = list(await queue.extend_all([heartbeat.asked() for heartbeat in due]))
        except RedisMessageQueueError as error:
            _log.warning("heartbeat of %d leases failed: %s", len(due), error)
        except Exception:  # no error may stop the heartbeats of other queues
            _log.exception("heartbeat of %d leases failed", len(due))
        for heartbeat, alive in zip_longest(due, kept):
            settle_beat(heartbeat, alive, sent)
            if heartbeat.over:
                self.remove(heartbeat)


_tasks_of: WeakKeyDictionary[Any, HeartbeatTask] = WeakKeyDictionary()


def _end_all() -> None:
    for task in list(_tasks_of.values()):
        task.end_all()


os.register_at_fork(after_in_child=_end_all)


def heartbeats() -> HeartbeatTask:
    """Return the heartbeats of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _tasks_of:
        _tasks_of[loop] = HeartbeatTask()
    return _tasks_of[loop]
