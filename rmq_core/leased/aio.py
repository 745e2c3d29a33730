"""`LeasedQueue` on asyncio, and functions that inspect many queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from rmq_core.aio import AsyncLargeLeaseFacade
from rmq_core.connection.clients import async_client, is_cluster
from rmq_core.errors import RedisMessageQueueError
from rmq_core.exchange import Exchange, together
from rmq_core.kernel.base import Part
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.leased import surveying
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.queue import LeasedAdmin, LeasedMethods
from rmq_core.leased.state import LeasedEngine
from rmq_core.reports import Backlog, QueueStats
from rmq_core.twin import Awaited


class AsyncLeasedQueue(LeasedMethods, AsyncLargeLeaseFacade[LeasedEngine]):
    """A queue whose messages are handed out under leases; the asyncio version of LeasedQueue.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. `on_event`
    gets a QueueEvent after each step.
    """

    admin = Part(LeasedAdmin[Awaited])


R = TypeVar("R")


async def holding(redis: Any, names: Iterable[str], config: LeasedConfig | None = None) -> list[str]:
    """Return the names of the leased queues that have ready, delayed or leased messages, in the given order.

    `redis` is a client, RedisSettings or a URL. Only the retry budget of `config` is used. Raises QueueUnavailable.
    """
    client, owned = async_client(redis)
    try:
        parts = surveying.parts(list(names), apart=is_cluster(client))
        return [name for part in parts for name in await _run(client, part, config, surveying.holding(part))]
    finally:
        if owned:
            await client.aclose()


async def backlogs(redis: Any, names: Iterable[str], config: LeasedConfig | None = None) -> dict[str, Backlog]:
    """Return the backlog of each of these leased queues, as `LeasedQueue.backlog` reports it for one.

    Expired leases are reclaimed first. `redis` is a client, RedisSettings or a URL; `config` should be the one that all
    users of the queues share. Raises QueueUnavailable.
    """
    client, owned = async_client(redis)
    found: dict[str, Backlog] = {}
    try:
        for part in surveying.parts(list(names), apart=is_cluster(client)):
            glances = await _run(client, part, config, surveying.glances(part, config or LeasedConfig()))
            for name, seen in zip(part, glances, strict=True):
                found[name] = await _reclaimed(client, name, config) if seen.late else seen.backlog
        return found
    finally:
        if owned:
            await client.aclose()


async def of_each(
    redis: Any, configs: Mapping[str, LeasedConfig], operation: Callable[[LeasedEngine], Exchange[R]]
) -> dict[str, R | Exception]:
    """Run an operation that yields only calls on each of these leased queues; their calls share writes.

    configs: the settings of each queue by its name. A queue for which the operation fails has the error as its value.
    Raises QueueUnavailable.
    """
    found: dict[str, R | Exception] = {}
    engines: dict[str, LeasedEngine] = {}
    for name, config in configs.items():
        try:
            engines[name] = LeasedEngine(LeasedKeys(name), config)
        except RedisMessageQueueError as error:  # another program may have written any name to the registry
            found[name] = error
    for part in surveying.parts(list(engines), apart=is_cluster(redis)):
        exchange = together([surveying.caught(operation(engines[name])) for name in part])
        found |= zip(part, await _run(redis, part, configs[part[0]], exchange), strict=True)
    return found


class QueueCounts(NamedTuple):
    """What a queue holds, and how many expired leases were reclaimed before that was counted."""

    stats: QueueStats
    expired: int


async def read_all(redis: Any, configs: Mapping[str, LeasedConfig]) -> dict[str, QueueCounts | Exception]:
    """Make due messages of these leased queues ready, reclaim their expired leases, and return what they hold.

    configs: the settings of each queue by its name; they should be those that all its users share. A queue that cannot
    be read has the error as its value. Raises QueueUnavailable.
    """
    client, owned = async_client(redis)
    found: dict[str, QueueCounts | Exception] = {}
    try:
        for part in surveying.parts(list(configs), apart=is_cluster(client)):
            found |= await _read_part(client, part, configs)
        return found
    finally:
        if owned:
            await client.aclose()


async def _read_part(
    client: Any, part: Sequence[str], configs: Mapping[str, LeasedConfig]
) -> dict[str, QueueCounts | Exception]:
    engines = [LeasedEngine(LeasedKeys(name), configs[name]) for name in part]
    config = configs[part[0]]
    late = await _run(client, part, config, surveying.promote(engines))
    expired = {
        engine.name: await _run(client, [engine.name], config, surveying.reclaim_expired(engine))
        for engine, is_late in zip(engines, late, strict=True)
        if is_late is True
    }
    counted = await _run(client, part, config, surveying.count(engines))
    return {
        name: stats if isinstance(stats, Exception) else QueueCounts(stats, expired.get(name, 0))
        for name, stats in zip(part, counted, strict=True)
    }


async def _reclaimed(client: Any, name: str, config: LeasedConfig | None) -> Backlog:
    async with AsyncLeasedQueue(client, name, config) as queue:
        return await queue.backlog()


async def _run(client: Any, names: Sequence[str], config: LeasedConfig | None, exchange: Exchange[Any]) -> Any:
    from rmq_core.exchange.public import async_driver  # loads redis-py; importing this must not

    driver = async_driver(client, LeasedKeys(names[0]).prefix, (config or LeasedConfig()).retry_budget_s)
    try:
        return await driver.run(exchange)
    finally:
        await driver.close()
