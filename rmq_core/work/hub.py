"""`WaitHub`: any number of waits for work, on any number of queues of one server, over a few connections.

It only looks; nothing is claimed. Each queue that somebody waits for has one task, which looks when the queue's bell
rings, when a message falls due and at the latest every 5 s, and answers all its waits. The bell is a one-shot: it rings
once each time it is armed, so a thousand publishes between two looks cost one ring. A bell that rings again and again
for too little is answered ever more seldom, down to once a second; a bell after a quiet time and a new wait are
answered at once. The looks of all queues share one connection, and those that are due together one write.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rmq_core.connection.clients import async_client, is_cluster
from rmq_core.discipline.leased.config import LeasedConfig
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.policy import seconds, whole
from rmq_core.queue.keys import LeasedKeys
from rmq_core.reports import Backlog
from rmq_core.work.polling import BacklogPoller
from rmq_core.work.threshold import Threshold

if TYPE_CHECKING:
    from rmq_core.exchange.aio import AsyncDriver

_LONGEST_S = 5.0
_TOGETHER_S = 0.02
"""What begins to wait within this time is answered by one look."""
_PACE_S, _SELDOM_S = 0.2, 1.0
"""The least time between two looks of a queue because of its bell, at first and when its bell goes on ringing."""


@dataclass(eq=False, slots=True)
class Waiter:
    """One wait: how much work, or how old, is enough."""

    enough: Threshold
    answer: asyncio.Future[Backlog]


@dataclass(eq=False, slots=True)
class WatchedQueue:
    """A queue somebody waits for."""

    engine: LeasedEngine
    driver: AsyncDriver
    looks: BacklogPoller
    wishes: set[Waiter] = field(default_factory=set)
    rung: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    pace_s: float = field(default_factory=lambda: _PACE_S)
    task: asyncio.Task[None] | None = None

    async def pause(self, pause_s: float) -> None:
        """Until it is time for the next look, after one that found too little."""
        loop = asyncio.get_running_loop()
        looked = loop.time()
        if not await _happens(self.rung, pause_s):
            return
        if not self.asked.is_set():
            rested = loop.time() - looked
            self.pace_s = max(_PACE_S, self.pace_s / 2) if rested > self.pace_s else min(2 * self.pace_s, _SELDOM_S)
            await _happens(self.asked, self.pace_s - rested)
        if self.asked.is_set():
            await asyncio.sleep(_TOGETHER_S)


class WaitHub:
    """Waits for work on the queues of one server. `redis` is an asyncio client, a RedisSettings or a URL."""

    def __init__(self, redis: Any, config: LeasedConfig | None = None) -> None:
        from rmq_core.exchange.aio import AsyncDriver  # noqa: PLC0415  loads redis-py, which naming a class must not
        from rmq_core.exchange.pubsub import PubSubListener  # noqa: PLC0415  the same

        self._driver = AsyncDriver
        self._client, self._owned = async_client(redis)
        self._config = config or LeasedConfig()
        self._watches: dict[str, WatchedQueue] = {}
        self._looks = BacklogPoller()
        self._listener = PubSubListener(self._client, self._ring)

    async def wait(
        self,
        queue: str,
        *,
        min_messages: int = 1,
        max_age: timedelta | float | None = None,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109  the name callers know from every other wait
    ) -> Backlog:
        """Return as soon as `min_messages` are ready, or the oldest has waited `max_age`; TimeoutError after `timeout`.

        max_age, timeout: seconds or timedelta; without them, only the number counts and the wait has no end.
        """
        patience_s = None if timeout is None else seconds("timeout", timeout)
        enough = Threshold(
            whole("min_messages", min_messages, minimum=1), None if max_age is None else seconds("max_age", max_age)
        )
        wish = Waiter(enough, asyncio.get_running_loop().create_future())
        watch = self._watch(queue)
        watch.wishes.add(wish)
        watch.asked.set()
        watch.rung.set()
        try:
            async with asyncio.timeout(patience_s):
                return await wish.answer
        finally:
            watch.wishes.discard(wish)

    async def aclose(self) -> None:
        """Stop listening; waits that are under way are cancelled."""
        tasks = [watch.task for watch in self._watches.values() if watch.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for looks in {self._looks, *(watch.looks for watch in self._watches.values())}:
            await looks.aclose()
        for watch in self._watches.values():
            for wish in watch.wishes:
                wish.answer.cancel()
        self._watches.clear()
        await self._listener.aclose()
        if self._owned:
            await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _watch(self, queue: str) -> WatchedQueue:
        watch = self._watches.get(queue)
        if watch is None:
            engine = LeasedEngine(LeasedKeys(queue), self._config)
            driver = self._driver(self._client, engine.keys.prefix, self._config.retry_budget_s)
            looks = (
                BacklogPoller() if is_cluster(self._client) else self._looks
            )  # there, queues live on different nodes
            watch = self._watches[queue] = WatchedQueue(engine, driver, looks)
        if watch.task is None or watch.task.done():
            watch.task = asyncio.get_running_loop().create_task(self._follow(queue, watch), name=f"rmq-wait {queue}")
        return watch

    async def _follow(self, queue: str, watch: WatchedQueue) -> None:
        """Look and answer for as long as somebody waits; a failure reaches everybody who does."""
        try:
            await self._listener.listen(watch.engine.keys.bell)
            while watch.wishes:
                await watch.pause(await self._look(watch))
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait must hear of it
            for wish in watch.wishes:
                if not wish.answer.done():
                    wish.answer.set_exception(error)
            watch.wishes.clear()
        finally:
            if self._watches.get(queue) is watch and not watch.wishes:
                del self._watches[queue]
                await self._listener.forget(watch.engine.keys.bell)

    async def _look(self, watch: WatchedQueue) -> float:
        """Answer the waits that are met; seconds until the next look."""
        watch.rung.clear()
        watch.asked.clear()
        backlog, due_s = await watch.looks.look(watch.engine, watch.driver)
        pause_s = min(_LONGEST_S, _LONGEST_S if due_s is None else due_s)
        for wish in list(watch.wishes):
            if wish.enough.met_by(backlog):
                watch.wishes.discard(wish)
                if not wish.answer.done():
                    wish.answer.set_result(backlog)
            else:
                pause_s = min(pause_s, wish.enough.met_in(backlog, _LONGEST_S))
        return max(0.001, pause_s)

    def _ring(self, channel: bytes) -> None:
        for watch in self._watches.values():
            if watch.engine.keys.bell == channel:
                watch.rung.set()


async def _happens(event: asyncio.Event, within_s: float) -> bool:
    """Whether an event is set, or comes to be within some seconds."""
    if not event.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await event.wait()
    return event.is_set()
