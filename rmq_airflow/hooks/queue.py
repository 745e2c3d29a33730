"""The connection type `redis_queue`.

Law: nothing is looked up or opened in `__init__`; credentials stay inside `RedisSettings`, whose repr hides them.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseHook

import rmq_core.asyncio
from rmq_airflow.location import check_leased, config_of, discipline_of, extra_of, settings_of
from rmq_core import (
    AsyncWorkQueue,
    ConfigurationError,
    LeasedConfig,
    LeasedQueue,
    RedisMessageQueueError,
    RedisSettings,
    WorkQueue,
    open_queue,
)

if TYPE_CHECKING:
    from redis import Redis, RedisCluster
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

MINIMUM_VERSION = (6, 2)
CLOCK_TOLERANCE_S = 5.0
LEASES = "leases under a task's name"


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

    @property
    def discipline(self) -> str:
        """What keeps the connection's queues, one of `rmq_core`'s disciplines."""
        return discipline_of(self._connection.extra_dejson)

    async def async_settings(self) -> RedisSettings:
        """The same in an event loop, which a synchronous look-up would block."""
        connection, extra = await self._async_connection()
        return settings_of(connection, extra)

    async def async_location(self, needed: str = LEASES) -> tuple[RedisSettings, LeasedConfig]:
        """Where the server is, and the configuration of a queue for which none is given; looked up in an event loop.

        Raises Unsupported, with what is `needed`, for a connection of another discipline than `leased`.
        """
        connection, extra = await self._async_connection()
        check_leased(discipline_of(extra), needed)
        return settings_of(connection, extra), config_of(extra)

    def get_conn(self) -> Redis | RedisCluster:
        """A redis-py client."""
        return self.settings.client()

    async def get_async_conn(self) -> AsyncRedis | AsyncRedisCluster:
        """A redis.asyncio client."""
        return (await self.async_settings()).async_client()

    def queue(self, name: str, config: LeasedConfig | None = None, *, needed_by: str | None = None) -> LeasedQueue:
        """A leased queue, to be closed or used in `with`; without `config` the connection's default lease applies.

        Raises Unsupported, which names the component `needed_by`, when the connection is for another discipline.
        """
        check_leased(self.discipline, LEASES if needed_by is None else f"{LEASES} (needed by {needed_by})")
        return LeasedQueue(self.settings, name, config or config_of(self._connection.extra_dejson))

    def work_queue(self, name: str, config: LeasedConfig | None = None) -> WorkQueue:
        """A queue of the connection's discipline, to be closed; for what works with any of them."""
        if self.discipline == "leased":
            return self.queue(name, config)
        if config is not None:
            raise ConfigurationError(
                f"`queue_config` is for leased queues, and connection {self.redis_queue_conn_id!r} is for the "
                f"discipline {self.discipline!r}; leave it out"
            )
        return open_queue(self.settings, name, self.discipline)

    async def async_queue(self, name: str, config: LeasedConfig | None = None) -> rmq_core.asyncio.LeasedQueue:
        """The same for an event loop."""
        settings, default = await self.async_location()
        return rmq_core.asyncio.LeasedQueue(settings, name, config or default)

    async def async_work_queue(self, name: str) -> AsyncWorkQueue:
        """The asyncio twin of `work_queue`."""
        connection, extra = await self._async_connection()
        discipline, settings = discipline_of(extra), settings_of(connection, extra)
        return rmq_core.asyncio.open_queue(
            settings, name, discipline, config_of(extra) if discipline == "leased" else None
        )

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

    async def _async_connection(self) -> tuple[Any, dict[str, Any]]:
        connection = await self.aget_connection(self.redis_queue_conn_id)
        return connection, extra_of(connection)  # `extra_dejson` talks to the supervisor, which blocks the loop

    @cached_property
    def _connection(self) -> Any:
        return self.get_connection(self.redis_queue_conn_id)


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
