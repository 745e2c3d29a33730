"""`LeasedQueue` on asyncio, and functions that inspect many queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from rmq_core.aio import AsyncLargeLeaseFacade
from rmq_core.connection.clients import is_cluster, opened
from rmq_core.envelope.claim_check import ClaimCheck
from rmq_core.envelope.codec import P
from rmq_core.errors import ConfigurationError, RedisMessageQueueError
from rmq_core.exchange import Exchange, together
from rmq_core.kernel.base import Part
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.leased import surveying
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.queue import LeasedAdmin, LeasedMethods, ask
from rmq_core.leased.state import LeasedEngine
from rmq_core.reports import QueueStats
from rmq_core.twin import Awaited


class AsyncLeasedQueue(LeasedMethods[P], AsyncLargeLeaseFacade[LeasedEngine, P]):
    """A LeasedQueue for asyncio: `redis` is a redis.asyncio client, a RedisSettings or a URL."""

    admin = Part(LeasedAdmin[Awaited])

    def _connect(self, redis: Any) -> None:
        if isinstance(self._engine.own.codec, ClaimCheck):
            raise ConfigurationError(
                "codec: ClaimCheck reads and writes files, for which the event loop would wait; use the blocking"
                " LeasedQueue in a thread"
            )
        super()._connect(redis)


R = TypeVar("R")


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
        found |= zip(part, await ask(True, redis, part, configs[part[0]], exchange), strict=True)
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
    found: dict[str, QueueCounts | Exception] = {}
    async with opened(redis, asynchronous=True) as client:
        for part in surveying.parts(list(configs), apart=is_cluster(client)):
            found |= await _read_part(client, part, configs)
    return found


async def _read_shards(client: Any, name: str, config: LeasedConfig) -> tuple[QueueStats | Exception, int]:
    try:
        async with AsyncLeasedQueue(client, name, config) as queue:
            await queue.backlog()
            return await queue.stats(), 0
    except RedisMessageQueueError as error:
        return error, 0


async def _read_part(
    client: Any, part: Sequence[str], configs: Mapping[str, LeasedConfig]
) -> dict[str, QueueCounts | Exception]:
    engines = [LeasedEngine(LeasedKeys(name), configs[name]) for name in part]
    config = configs[part[0]]
    late = await ask(True, client, part, config, surveying.promote(engines))
    expired = {
        engine.name: await ask(True, client, [engine.name], config, surveying.reclaim_expired(engine))
        for engine, is_late in zip(engines, late, strict=True)
        if is_late is True
    }
    counted = await ask(True, client, part, config, surveying.count(engines))
    for at, engine in enumerate(engines):
        if engine.keys.layout == "sharded":
            counted[at], expired[engine.name] = await _read_shards(client, engine.name, configs[engine.name])
    return {
        name: stats if isinstance(stats, Exception) else QueueCounts(stats, expired.get(name, 0))
        for name, stats in zip(part, counted, strict=True)
    }
