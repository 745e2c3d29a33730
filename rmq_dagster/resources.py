"""`RedisQueueResource`: connections are opened on first use, one for each queue, and closed with the run or the tick.

It starts no thread and claims nothing, so that a sensor tick may use it. Credentials appear in no repr, log or tag:
`password` belongs into an `EnvVar`, because Dagster shows literal resource configuration on its resource page.
"""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from rmq_core import LeasedConfig, LeasedQueue, RedisSettings


class RedisQueueResource(dg.ConfigurableResource[LeasedQueue]):
    """A connection to the Redis that holds the queues.

    >>> redis_queue = RedisQueueResource(url="redis://cache:6379/0", password=dg.EnvVar("REDIS_PASSWORD"))
    """

    url: str = Field(
        repr=False,
        description="redis://, rediss://, unix://, sentinel://, redis+cluster:// or embedded://PATH."
        " Credentials belong into `username` and `password`, not in here.",
    )
    username: str | None = Field(default=None, description="ACL user; none logs in as `default`.")
    password: str | None = Field(
        default=None,
        repr=False,
        description='Password of the user: EnvVar("REDIS_PASSWORD").',
        json_schema_extra={"dagster__is_secret": True},
    )

    _queues: dict[tuple[str, LeasedConfig | None], LeasedQueue] = PrivateAttr(default_factory=dict)
    _client: Any = PrivateAttr(default=None)

    @classmethod
    def _is_dagster_maintained(cls) -> bool:
        return False

    def settings(self) -> RedisSettings:
        """The connection settings. Raises `ConfigurationError` when the URL cannot be used."""
        return RedisSettings.from_url(self.url, username=self.username, password=self.password)

    def queue(self, name: str, config: LeasedConfig | None = None) -> LeasedQueue:
        """The queue `name`; asked for again, the same one. It is closed together with the resource.

        Whoever peeks, claims or settles may also reclaim what expired, so give every user of a queue the same `config`.
        """
        if self._client is None:
            self._client = self.settings().client()
        if (name, config) not in self._queues:
            self._queues[name, config] = LeasedQueue(self._client, name, config)
        return self._queues[name, config]

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """Close the queues and the connection."""
        self.close()

    def close(self) -> None:
        """Close what `queue` opened. Only scripts need it: Dagster closes the resource after a run or a tick."""
        queues, self._queues = self._queues, {}
        client, self._client = self._client, None
        for queue in queues.values():
            queue.close()
        if client is not None:
            client.close()
