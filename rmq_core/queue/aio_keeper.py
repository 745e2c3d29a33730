"""Heartbeats on asyncio: one task an event loop looks after every lease that is being worked on. See `keeper`.

It waits for no extension: each queue has a task of its own for that, so that a server that hangs delays no other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from rmq_core.errors import RedisMessageQueueError
from rmq_core.messages import Lease
from rmq_core.queue.keeper import Charge, settle_beat

_log = logging.getLogger("rmq")


class AsyncExtender(Protocol):
    """What the keeper needs of a queue."""

    async def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
        """Extend leases in one write; False for each that is lost."""
        ...  # pragma: no cover


class AsyncKeeper:
    """The charges of an event loop and the task that looks after them; the task lives while there are charges."""

    def __init__(self) -> None:
        self._charges: set[Charge[AsyncExtender]] = set()
        self._changed = asyncio.Event()
        self._beating: dict[AsyncExtender, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, charge: Charge[AsyncExtender]) -> None:
        self._charges.add(charge)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rmq-heartbeat")

    def remove(self, charge: Charge[AsyncExtender]) -> None:
        self._charges.discard(charge)
        if not self._charges:
            self._changed.set()

    async def _run(self) -> None:
        try:
            while self._charges or self._beating:
                await self._look()
        finally:
            if not self._charges:  # else it would keep its event loop in memory, and that loop the keeper
                _keepers.pop(asyncio.get_running_loop(), None)

    async def _look(self) -> None:
        now = time.monotonic()
        free = [charge for charge in self._charges if charge.queue not in self._beating]
        due = [charge for charge in free if charge.next_at <= now]
        for queue in {charge.queue for charge in due}:
            self._begin(queue, [charge for charge in due if charge.queue is queue])
        later = [charge.next_at for charge in free if charge.next_at > now]
        await self._sleep(min(later) - now if later else None)

    def _begin(self, queue: AsyncExtender, due: list[Charge[AsyncExtender]]) -> None:
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

    async def _beat(self, queue: AsyncExtender, due: list[Charge[AsyncExtender]]) -> None:
        sent, kept = time.monotonic(), []
        try:
            kept = list(await queue.extend_all([charge.asked() for charge in due]))
        except RedisMessageQueueError as error:
            _log.warning("heartbeat of %d leases failed: %s", len(due), error)
        except Exception:  # noqa: BLE001  whatever it is, the other queues' leases need their heartbeat
            _log.exception("heartbeat of %d leases failed", len(due))
        for charge, alive in zip_longest(due, kept):
            settle_beat(charge, alive, sent)
            if charge.over:
                self.remove(charge)


_keepers: WeakKeyDictionary[Any, AsyncKeeper] = WeakKeyDictionary()


def keeper() -> AsyncKeeper:
    """The keeper of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _keepers:
        _keepers[loop] = AsyncKeeper()
    return _keepers[loop]
