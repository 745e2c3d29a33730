"""The connection type `redis_queue`.

Law: nothing is looked up or opened in `__init__`; credentials stay inside `RedisSettings`, whose repr hides them.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseHook

import rmq_core.asyncio
from rmq_airflow.location import config_of, extra_of, settings_of
from rmq_core import LeasedConfig, LeasedQueue, RedisMessageQueueError, RedisSettings

if TYPE_CHECKING:
    from redis import Redis, RedisCluster
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

MINIMUM_VERSION = (6, 2)
CLOCK_TOLERANCE_S = 5.0


class RedisQueueHook(BaseHook):
    """
    Opens queues on the Redis server of an Airflow connection.

    :param redis_queue_conn_id: a connection of type ``redis_queue``; one of the Redis provider's type works too
    """

    conn_name_attr = "redis_queue_conn_id"
    default_conn_name = "redis_queue_default"
    conn_type = "redis_queue"
    hook_name = "Redis Queue"

    def __init__(self, redis_queue_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.redis_queue_conn_id = redis_queue_conn_id

    @cached_property
    def settings(self) -> RedisSettings:
        """Where the server is; looks the connection up once. Raises ConfigurationError, AirflowNotFoundException."""
        return settings_of(self._connection, self._connection.extra_dejson)

    async def async_settings(self) -> RedisSettings:
        """The same in an event loop, which a synchronous look-up would block."""
        settings, _ = await self._look_up()
        return settings

    def get_conn(self) -> Redis | RedisCluster:
        """A redis-py client."""
        return self.settings.client()

    async def get_async_conn(self) -> AsyncRedis | AsyncRedisCluster:
        """A redis.asyncio client."""
        return (await self.async_settings()).async_client()

    def queue(self, name: str, config: LeasedConfig | None = None) -> LeasedQueue:
        """A queue, to be closed or used in `with`; without `config` the connection's default lease applies."""
        return LeasedQueue(self.settings, name, config or config_of(self._connection.extra_dejson))

    async def async_queue(self, name: str, config: LeasedConfig | None = None) -> rmq_core.asyncio.LeasedQueue:
        """The same for an event loop."""
        settings, default = await self._look_up()
        return rmq_core.asyncio.LeasedQueue(settings, name, config or default)

    async def async_hub(self) -> rmq_core.asyncio.WaitHub:
        """What waits for work without claiming it, to be closed or used in `async with`."""
        return rmq_core.asyncio.WaitHub(*await self._look_up())

    def test_connection(self) -> tuple[bool, str]:
        """What the connection form's test button calls: PING, version, scripts, and the clock within 5 s."""
        try:
            client = self.get_conn()
        except RedisMessageQueueError as error:
            return False, str(error)
        try:
            return _examine(client)
        except Exception as error:  # noqa: BLE001  whatever is wrong belongs into the form, not into a traceback
            return False, f"{type(error).__name__}: {error}"
        finally:
            client.close()

    @cached_property
    def _connection(self) -> Any:
        return self.get_connection(self.redis_queue_conn_id)

    async def _look_up(self) -> tuple[RedisSettings, LeasedConfig]:
        connection = await self.aget_connection(self.redis_queue_conn_id)
        extra = extra_of(connection)  # Airflow's own `extra_dejson` talks to the supervisor, which blocks the loop
        return settings_of(connection, extra), config_of(extra)


def _examine(client: Any) -> tuple[bool, str]:
    client.ping()
    version = str(client.info("server")["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < MINIMUM_VERSION:
        return False, f"the server is Redis {version}; RMQ needs 6.2 or later"
    if client.eval("return 'scripts'", 0) not in (b"scripts", "scripts"):
        return False, "the server does not run Lua scripts; allow @scripting to this user"
    return _compare_clocks(client, version)


def _compare_clocks(client: Any, version: str) -> tuple[bool, str]:
    seconds, microseconds = client.time()
    apart = abs(time.time() - (seconds + microseconds / 1e6))
    if apart > CLOCK_TOLERANCE_S:
        return False, f"the clocks of this machine and the server are {apart:.0f} s apart; run NTP on both"
    return True, f"Redis {version} answers, runs scripts, and its clock is {apart:.1f} s from this machine's"
