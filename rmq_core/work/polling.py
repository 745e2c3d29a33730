"""Polls of queues over one connection: requests that arrive while a write is in progress share the next write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.inspecting import Glance, glance, poll_backlog
from rmq_core.errors import WrongKeyType
from rmq_core.exchange import Exchange, together
from rmq_core.queue.recording import flush, one_attempt
from rmq_core.reports import Backlog

if TYPE_CHECKING:
    from rmq_core.exchange.aio import AsyncDriver

Polled: TypeAlias = tuple[Backlog, float | None]
"""The backlog of a queue, and the seconds until its next due time."""
BELL_MS, _AT_ONCE = 15_000, 100


class _Asked(NamedTuple):
    engine: LeasedEngine
    driver: AsyncDriver
    answer: asyncio.Future[Polled]


class BacklogPoller:
    """Polls queues; all requests pending at a time share one write. Each poll arms the queue's notification for 15 s.

    The queues that share a poller are on one server, so that the driver of any of them can poll all.
    """

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None

    async def poll(self, engine: LeasedEngine, driver: AsyncDriver) -> Polled:
        """Return the current backlog of a queue; reclaim expired leases first. Raises RedisMessageQueueError."""
        loop = asyncio.get_running_loop()
        asked = _Asked(engine, driver, loop.create_future())
        self._asked.append(asked)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run(), name="rmq-polls")
        return await asked.answer

    async def aclose(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._asked:
            batch, self._asked = self._asked[:_AT_ONCE], self._asked[_AT_ONCE:]
            waited_for = [asked for asked in batch if not asked.answer.done()]
            if waited_for:
                await _answer(waited_for)


async def _answer(batch: list[_Asked]) -> None:
    driver = batch[0].driver
    try:
        found = await driver.run(together([_attempt(asked.engine) for asked in batch]))
    except Exception as error:  # every error must reach the waiters
        found = [error] * len(batch)
    finally:
        await driver.close()
    for asked, seen in zip(batch, found, strict=True):
        await _tell(asked, seen)


def _attempt(engine: LeasedEngine) -> Exchange[Glance | Exception]:
    """Run a glance and return its failure as a result, so that it does not end the other glances of the write."""
    try:
        return (yield from glance(engine, BELL_MS))
    except Exception as error:  # every error must reach the waiters
        return error


async def _tell(asked: _Asked, seen: Glance | Exception) -> None:
    again = seen.late if isinstance(seen, Glance) else isinstance(seen, WrongKeyType)
    found = await _reclaim(asked) if again else seen
    if asked.answer.done():
        return
    if isinstance(found, Exception):
        asked.answer.set_exception(found)
    else:
        asked.answer.set_result(found[:2])


async def _reclaim(asked: _Asked) -> Polled | Exception:
    """Poll again with the queue's own driver, and reclaim expired leases.

    If the queue is stored in another format, this driver raises FormatMismatch; the shared one raised WrongKeyType.
    """
    try:
        found = await asked.driver.run(poll_backlog(asked.engine, BELL_MS))
    except Exception as error:  # every error must reach the waiters
        return error
    else:
        await asked.driver.run(flush(asked.engine), one_attempt())
        return found
    finally:
        await asked.driver.close()
