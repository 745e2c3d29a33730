"""The connection type `redis_queue`.

Law: nothing is looked up or opened in `__init__`; credentials stay inside `RedisSettings`, whose repr hides them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from socket import gethostname
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.providers.common.compat.sdk import BaseHook

import rmq_core.asyncio
from rmq_airflow import location
from rmq_airflow.connection_test import examine
from rmq_airflow.identity import TaskIdentity, once_name
from rmq_airflow.location import Location, check_leased
from rmq_airflow.metrics import trace_headers
from rmq_core import (
    ConfigurationError,
    LeasedConfig,
    LeasedQueue,
    RedisMessageQueueError,
    RedisSettings,
    WorkQueue,
    open_queue,
)
from rmq_core.orchestrate import Outbox, publishing_once
from rmq_core.protocol import AsyncWorkQueue
from rmq_core.tracing import traced

Q = TypeVar("Q")

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context
    from redis import Redis, RedisCluster
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

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
    seen: ClassVar[dict[str, RedisSettings]] = {}
    """The settings of the connections that this process has read, for lineage, which must not look them up again."""

    def __init__(self, redis_queue_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.redis_queue_conn_id = redis_queue_conn_id

    @property
    def settings(self) -> RedisSettings:
        """Return the location of the server and how to log in; the connection is looked up once.

        Raises AirflowNotFoundException, or ConfigurationError for any field or extra that cannot work.
        """
        return self._location.settings

    @property
    def discipline(self) -> str:
        """Return the discipline of the connection's queues, one of `rmq_core`'s disciplines."""
        return self._location.discipline

    @property
    def traced(self) -> bool:
        """Return whether the connection asks for spans of publish, claim and settle."""
        return self._location.traced

    async def async_settings(self) -> RedisSettings:
        """Return the same as `settings`, without the synchronous look-up that would block an event loop."""
        return (await self._async_location()).settings

    async def async_location(self, needed: str = LEASES) -> tuple[RedisSettings, LeasedConfig]:
        """Return the server's settings and the default queue configuration; looked up without blocking the event loop.

        Raises Unsupported, whose text names `needed`, if the connection's discipline is not `leased`.
        """
        found = await self._async_location()
        check_leased(found.discipline, needed)
        return found.settings, found.config

    def get_conn(self) -> Redis | RedisCluster:
        """Return a redis-py client."""
        return self.settings.client()

    async def get_async_conn(self) -> AsyncRedis | AsyncRedisCluster:
        """Return a redis.asyncio client."""
        return (await self.async_settings()).async_client()

    def queue(self, name: str, config: LeasedConfig | None = None, *, needed_by: str | None = None) -> LeasedQueue:
        """Return a leased queue, which the caller closes or uses in `with`.

        Without `config`, the connection's default configuration applies. Raises Unsupported, which names the component
        `needed_by`, if the connection has another discipline.
        """
        check_leased(self.discipline, LEASES if needed_by is None else f"{LEASES} (needed by {needed_by})")
        return _traced(self._location, LeasedQueue(self.settings, name, config or self._location.config))

    def work_queue(self, name: str, config: LeasedConfig | None = None) -> WorkQueue:
        """Return a queue of the connection's discipline, whichever that is; the caller closes it."""
        if self.discipline == "leased":
            return self.queue(name, config)
        self._check_config(self.discipline, config)
        return _traced(self._location, open_queue(self.settings, name, self.discipline))

    async def async_queue(self, name: str, config: LeasedConfig | None = None) -> rmq_core.asyncio.LeasedQueue:
        """Return a leased queue for an event loop, like `queue`."""
        found = await self._async_location()
        check_leased(found.discipline, LEASES)
        return _traced(found, rmq_core.asyncio.LeasedQueue(found.settings, name, config or found.config))

    async def async_work_queue(self, name: str, config: LeasedConfig | None = None) -> AsyncWorkQueue:
        """The asyncio version of `work_queue`."""
        found = await self._async_location()
        if found.discipline == "leased":
            config = config or found.config
        else:
            self._check_config(found.discipline, config)
        return _traced(found, rmq_core.asyncio.open_queue(found.settings, name, found.discipline, config))

    @contextmanager
    def outbox(self, context: Context, queue: str, *, config: LeasedConfig | None = None) -> Iterator[Outbox]:
        """Collect messages in a block of a task and publish them at its end, once however often Airflow retries it.

        If the block raises, nothing is published. A retry whose block was published before publishes nothing. A task
        that a user clears publishes again. Several blocks of a task count in their order. Raises Unsupported for
        another discipline than `leased`, and for a queue in shards.

        >>> with hook.outbox(context, "invoices") as outbox:
        ...     outbox.publish(invoices)
        """
        with self.queue(queue, config, needed_by="outbox") as opened:
            task = TaskIdentity.of(context)
            headers = {**task.headers, **({} if self.traced else trace_headers())}
            attempt = (task.try_number, context["ti"].start_date)
            with publishing_once(opened, once_name(context), attempt, headers) as outbox:
                yield outbox
        if not outbox.published:
            self.log.info("An earlier try of this task has published to %r; nothing was published again.", queue)

    def test_connection(self) -> tuple[bool, str]:
        """Test all fields and extras, and the server; the test button of the connection form calls this.

        Checks PING, version, scripts, and that the clocks agree within 5 s. Does not start an embedded server. The text
        begins with the machine on which it ran, since API server and workers may reach different servers.
        """
        try:
            works, text = examine(location.read(self._connection).settings)
        except RedisMessageQueueError as error:
            works, text = False, str(error)
        except Exception as error:  # every error must appear in the form, not as a traceback
            works, text = False, f"{type(error).__name__}: {error}"
        return works, f"On {gethostname()}: {text}"

    def _check_config(self, discipline: str, config: LeasedConfig | None) -> None:
        if config is not None:
            raise ConfigurationError(
                f"`queue_config` is for leased queues, and connection {self.redis_queue_conn_id!r} is for the "
                f"discipline {discipline!r}; leave it out"
            )

    async def _async_location(self) -> Location:
        return self._read(await self.aget_connection(self.redis_queue_conn_id))

    @cached_property
    def _location(self) -> Location:
        _ = self._connection.extra_dejson  # makes Airflow mask secret values; would block in an event loop
        return self._read(self._connection)

    def _read(self, connection: Any) -> Location:
        try:
            found = location.read(connection)
        except ConfigurationError as error:
            raise ConfigurationError(f"connection {self.redis_queue_conn_id!r}: {error}") from error
        self.seen[self.redis_queue_conn_id] = found.settings
        return found

    @cached_property
    def _connection(self) -> Any:
        return self.get_connection(self.redis_queue_conn_id)


def _traced(found: Location, queue: Q) -> Q:
    """Trace a queue if its connection says so; messages of some disciplines cannot carry the context."""
    capable: Any = queue
    return traced(queue) if found.traced and capable.capabilities.headers else queue
