"""`WaitHub`: waits for work or for the end of publications, on any number of queues of one server.

It only polls, over a few connections; it claims nothing. Each queue with waiters has one task. It polls on a
notification, when a message is due, and at least every 5 s, then resolves all its waiters. A subscription is one-shot:
each poll re-arms it, so a thousand publishes between polls send one notification. While notifications keep coming but
bring too little work for the waiters, the interval between polls grows to one second; a new wait, or a notification
after a quiet time, polls at once. All polls share one connection; polls due together share one write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from rmq_core.admin.history import flush, one_attempt
from rmq_core.connection.clients import async_client, is_cluster
from rmq_core.errors import ConfigurationError, QueueUnavailable, RedisMessageQueueError, WrongKeyType
from rmq_core.exchange import Exchange, together
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.kernel.registry import async_disciplines
from rmq_core.leased.aio import of_each
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.grouping import backlogs_by_group
from rmq_core.leased.inspecting import Glance, glance, poll_queue
from rmq_core.leased.publications import publication
from rmq_core.leased.queue import async_backlogs, async_holding
from rmq_core.leased.state import LeasedEngine
from rmq_core.leased.surveying import look
from rmq_core.orchestrate.limits import Threshold
from rmq_core.policy import checked_group, chosen_groups, seconds, whole
from rmq_core.reports import Backlog, Publication

if TYPE_CHECKING:
    from rmq_core.exchange.aio import AsyncDriver


Polled: TypeAlias = tuple[Backlog, float | None]
"""The backlog of a queue, and the seconds until its next due time."""
NOTIFY_MS, _AT_ONCE = 15_000, 100


class _Asked(NamedTuple):
    engine: LeasedEngine
    driver: AsyncDriver
    answer: asyncio.Future[Polled]
    groups: str | None


class BacklogPoller:
    """Polls queues; all requests pending at a time share one write. Each poll arms the queue's notification for 15 s.

    The queues that share a poller are on one server, so that the driver of any of them can poll all.
    """

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None

    async def poll(self, engine: LeasedEngine, driver: AsyncDriver, groups: str | None = None) -> Polled:
        """Return the current backlog of a queue; reclaim expired leases first. Raises RedisMessageQueueError.

        groups: those whose messages count, in the form that scripts read.
        """
        loop = asyncio.get_running_loop()
        asked = _Asked(engine, driver, loop.create_future(), groups)
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
        found = await driver.run(together([_attempt(asked) for asked in batch]))
    except Exception as error:  # every error must reach the waiters
        found = [error] * len(batch)
    finally:
        await driver.close()
    for asked, seen in zip(batch, found, strict=True):
        await _resolve(asked, seen)


def _attempt(asked: _Asked) -> Exchange[Glance | Exception]:
    """Run a glance and return its failure as a result, so that it does not end the other glances of the write."""
    try:
        return (yield from glance(asked.engine, NOTIFY_MS, asked.groups))
    except Exception as error:  # every error must reach the waiters
        return error


async def _resolve(asked: _Asked, seen: Glance | Exception) -> None:
    again = (
        seen.late or asked.engine.keys.layout == "sharded"
        if isinstance(seen, Glance)
        else isinstance(seen, WrongKeyType)
    )
    found = await _reclaim(asked) if again else seen
    if asked.answer.done():
        return
    if isinstance(found, Exception):
        asked.answer.set_exception(found)
    else:
        asked.answer.set_result(found[:2])


async def _reclaim(asked: _Asked) -> Polled | Exception:
    """Poll again with the queue's own driver, and reclaim expired leases; poll all shards of a queue that has some.

    If the queue is stored in another format, this driver raises FormatMismatch; the shared one raised WrongKeyType.
    """
    try:
        found = await asked.driver.run(poll_queue(asked.engine, NOTIFY_MS, asked.groups))
    except Exception as error:  # every error must reach the waiters
        return error
    else:
        await asked.driver.run(flush(asked.engine), one_attempt())
        return found
    finally:
        await asked.driver.close()


_LONGEST_S = 5.0
_TOGETHER_S = 0.02
"""One poll serves all waits that begin within this time."""
_PACE_S, _SELDOM_S = 0.2, 1.0
"""Minimum interval between notification-driven polls: initial, and after back-off."""


@dataclass(eq=False, slots=True)
class Waiter:
    """One caller's wait: for enough work, or for the end of a publication, and its future."""

    enough: Threshold
    answer: asyncio.Future[Any]
    on_pause: Callable[[Backlog], None] | None = None
    publication: str | None = None
    context: Context = field(default_factory=copy_context)
    reported: bool = False

    def end(self, found: Any) -> None:
        """Resolve the wait, unless it was cancelled; an exception is raised in it."""
        if self.answer.done():
            return
        if isinstance(found, Exception):
            self.answer.set_exception(found)
        else:
            self.answer.set_result(found)

    def report_pause(self, backlog: Backlog) -> None:
        """Call `on_pause` once in a pause, in the context of the wait: the logs of programs depend on it."""
        if backlog.paused and not self.reported and self.on_pause is not None:
            self.context.run(self.on_pause, backlog)
        self.reported = backlog.paused


@dataclass(eq=False, slots=True)
class WatchedQueue:
    """A queue with waiters that wait for the same groups; `groups` has them in the form that scripts read."""

    engine: LeasedEngine
    driver: AsyncDriver
    poller: BacklogPoller
    groups: str | None = None
    waiters: set[Waiter] = field(default_factory=set)
    notified: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    pace_s: float = field(default_factory=lambda: _PACE_S)
    channels: set[bytes] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    async def pause(self, pause_s: float) -> None:
        """Sleep until the next poll is due."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if not await _happens(self.notified, pause_s):
            return
        if not self.asked.is_set():
            rested = loop.time() - began
            self.pace_s = max(_PACE_S, self.pace_s / 2) if rested > self.pace_s else min(2 * self.pace_s, _SELDOM_S)
            await _happens(self.asked, self.pace_s - rested)
        if self.asked.is_set():
            await asyncio.sleep(_TOGETHER_S)


class WaitHub:
    """Waits for work on the queues of one server. `redis` is an asyncio client, a RedisSettings or a URL."""

    def __init__(self, redis: Any, config: LeasedConfig | None = None) -> None:
        from rmq_core.exchange.aio import AsyncDriver  # lazy: importing WaitHub must not load redis-py
        from rmq_core.exchange.pubsub import PubSubListener

        self._driver = AsyncDriver
        self._client, self._owned = async_client(redis)
        self._config = config or LeasedConfig()
        self._watches: dict[tuple[str, str | None], WatchedQueue] = {}
        self._poller = BacklogPoller()
        self._listener = PubSubListener(self._client, self._notify)

    async def wait(
        self,
        queue: str,
        *,
        min_messages: int = 1,
        max_age: timedelta | float | None = None,
        timeout: timedelta | float | None = None,
        on_pause: Callable[[Backlog], None] | None = None,
        groups: Collection[str] | None = None,
    ) -> Backlog:
        """Return as soon as `min_messages` are ready, or the oldest has waited `max_age`; not while it is paused.

        groups: only messages of these groups count, as for `claim`. Raises ConfigurationError for `groups` where the
        queue has none, and TimeoutError after `timeout`. max_age, timeout: seconds or timedelta; without max_age only
        the number counts; without timeout it waits forever. on_pause: called once for each pause, with what the queue
        holds.
        """
        patience_s = None if timeout is None else seconds("timeout", timeout)
        enough = Threshold(
            whole("min_messages", min_messages, minimum=1), None if max_age is None else seconds("max_age", max_age)
        )
        chosen = None if groups is None else chosen_groups(groups)
        found: Backlog = await self._wait(queue, Waiter(enough, _future(), on_pause), patience_s, chosen)
        return found

    async def wait_for_publication(
        self, queue: str, name: str, *, timeout: timedelta | float | None = None
    ) -> Publication:
        """Return when a publication has ended; see `LeasedQueue.publication`.

        timeout: seconds or timedelta; without it, wait forever. Raises TimeoutError after it, ConfigurationError for a
        queue without groups.
        """
        patience_s = None if timeout is None else seconds("timeout", timeout)
        waiter = Waiter(Threshold(1, None), _future(), publication=checked_group(name, "publication"))
        found: Publication = await self._wait(queue, waiter, patience_s)
        return found

    async def by_group(self, queue: str, *, count: int = 1000) -> dict[str, Backlog]:
        """Return at once the backlog of each group of which a claim may get messages now, by its name.

        Expired leases are not reclaimed; `wait` does that. Of more than `count` groups, those with the most messages
        are returned. Raises ConfigurationError for a queue without groups.
        """
        engine = LeasedEngine(LeasedKeys(queue), self._config)
        driver = self._driver(self._client, engine.prefix, engine.retry_budget_s)
        try:
            return await driver.run(backlogs_by_group(engine, count))
        finally:
            await driver.close()

    async def by_partition(self, queue: str) -> dict[str, Backlog | Exception]:
        """Return at once the backlog of each leased queue `<queue>/<partition>` with messages, by its partition.

        A queue that cannot be read has the error as its value. Expired leases are reclaimed first. Without messages
        this takes one read of the list of all queues, and one call for 1,000 queues; on a cluster, a call for each.
        """
        start, ours = f"{queue}/", self._config
        known = await async_disciplines(self._client)
        names = [name for name, discipline in known.items() if name.startswith(start) and discipline == "leased"]
        held = await async_holding(self._client, names, ours)
        seen = await of_each(self._client, dict.fromkeys(held, ours), look)
        return {name.removeprefix(start): await self._backlog(name, found) for name, found in seen.items()}

    async def _backlog(self, queue: str, seen: Glance | Exception) -> Backlog | Exception:
        if isinstance(seen, Exception):
            return seen
        try:
            return (await async_backlogs(self._client, [queue], self._config))[queue] if seen.late else seen.backlog
        except QueueUnavailable:
            raise
        except RedisMessageQueueError as error:
            return error

    async def _wait(self, queue: str, waiter: Waiter, patience_s: float | None, groups: str | None = None) -> Any:
        watch = self._watch(queue, groups)
        watch.waiters.add(waiter)
        watch.asked.set()
        watch.notified.set()
        try:
            async with asyncio.timeout(patience_s):
                return await waiter.answer
        finally:
            watch.waiters.discard(waiter)

    async def aclose(self) -> None:
        """Unsubscribe and cancel the pending waits."""
        tasks = [watch.task for watch in self._watches.values() if watch.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for poller in {self._poller, *(watch.poller for watch in self._watches.values())}:
            await poller.aclose()
        for watch in self._watches.values():
            for waiter in watch.waiters:
                waiter.answer.cancel()
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

    def _watch(self, queue: str, groups: str | None) -> WatchedQueue:
        watch = self._watches.get((queue, groups))
        if watch is None:
            engine = LeasedEngine(LeasedKeys(queue), self._config)
            driver = self._driver(self._client, engine.prefix, engine.retry_budget_s)
            # A cluster spreads queues over nodes, and a poller reaches one.
            poller = BacklogPoller() if is_cluster(self._client) else self._poller
            watch = self._watches[queue, groups] = WatchedQueue(engine, driver, poller, groups)
        if watch.task is None or watch.task.done():
            following = self._follow((queue, groups), watch)
            watch.task = asyncio.get_running_loop().create_task(following, name=f"rmq-wait {queue}")
        return watch

    async def _follow(self, name: tuple[str, str | None], watch: WatchedQueue) -> None:
        """Poll and resolve waiters while there are any. A failure is raised in all of them."""
        try:
            watch.channels = {watch.engine.keys.channel}
            await self._listener.listen(watch.engine.keys.channel)
            while watch.waiters:
                await watch.pause(await self._poll(watch))
        except Exception as error:  # every waiter must receive the error
            for waiter in watch.waiters:
                waiter.end(error)
            watch.waiters.clear()
        finally:
            if self._watches.get(name) is watch and not watch.waiters:
                del self._watches[name]
                if not any(queue == name[0] for queue, _ in self._watches):
                    for channel in watch.channels:
                        await self._listener.forget(channel)

    async def _poll(self, watch: WatchedQueue) -> float:
        """Poll the queue and resolve the waits whose threshold it meets. Return the seconds until the next poll."""
        watch.notified.clear()
        watch.asked.clear()
        backlog, due_s = await watch.poller.poll(watch.engine, watch.driver, watch.groups)
        for channel in watch.engine.channels - watch.channels:  # of shards that are known only now
            await self._listener.listen(channel)
            watch.channels.add(channel)
            watch.notified.set()
        pause_s = min(_LONGEST_S, _LONGEST_S if due_s is None else due_s)
        await self._end(watch)
        for waiter in [each for each in watch.waiters if each.publication is None]:
            waiter.report_pause(backlog)
            if waiter.enough.met_by(backlog):
                watch.waiters.discard(waiter)
                waiter.end(backlog)
            else:
                pause_s = min(pause_s, waiter.enough.met_in(backlog, _LONGEST_S))
        return max(0.001, pause_s)

    async def _end(self, watch: WatchedQueue) -> None:
        """Resolve the waits for publications that have ended. The notification was requested before these are read."""
        waiting = defaultdict[str, list[Waiter]](list)
        for waiter in watch.waiters:
            if waiter.publication is not None:
                waiting[waiter.publication].append(waiter)
        for name, waiters in waiting.items():
            found: Publication | ConfigurationError
            try:
                found = await watch.driver.run(publication(watch.engine, name))
            except ConfigurationError as error:
                found = error
            finally:
                await watch.driver.close()
            if isinstance(found, ConfigurationError) or found.done:
                for waiter in waiters:
                    watch.waiters.discard(waiter)
                    waiter.end(found)

    def _notify(self, channel: bytes) -> None:
        for watch in self._watches.values():
            if channel in watch.channels:
                watch.notified.set()


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def _happens(event: asyncio.Event, within_s: float) -> bool:
    """Return whether the event is set within `within_s` seconds."""
    if not event.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await event.wait()
    return event.is_set()
