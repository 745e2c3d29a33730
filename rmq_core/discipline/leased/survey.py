"""Inspect many leased queues of one server together, with the blocking driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rmq_core.connection.clients import is_cluster, sync_client
from rmq_core.discipline.leased.config import LeasedConfig
from rmq_core.discipline.leased.operations import surveying
from rmq_core.discipline.leased.sync import LeasedQueue
from rmq_core.exchange import Exchange
from rmq_core.queue.keys import LeasedKeys
from rmq_core.reports import Backlog


def holding(redis: Any, names: Iterable[str], config: LeasedConfig | None = None) -> list[str]:
    """Return the names of the leased queues that have ready, delayed or leased messages, in the given order.

    `redis` is a client, RedisSettings or a URL. Only the retry budget of `config` is used. Raises QueueUnavailable.
    """
    client, owned = sync_client(redis)
    try:
        parts = surveying.parts(list(names), apart=is_cluster(client))
        return [name for part in parts for name in _run(client, part, config, surveying.holding(part))]
    finally:
        if owned:
            client.close()


def backlogs(redis: Any, names: Iterable[str], config: LeasedConfig | None = None) -> dict[str, Backlog]:
    """Return the backlog of each of these leased queues, as `LeasedQueue.backlog` reports it for one.

    Expired leases are reclaimed first. `redis` is a client, RedisSettings or a URL; `config` should be the one that all
    users of the queues share. Raises QueueUnavailable.
    """
    client, owned = sync_client(redis)
    found: dict[str, Backlog] = {}
    try:
        for part in surveying.parts(list(names), apart=is_cluster(client)):
            glances = _run(client, part, config, surveying.glances(part, config or LeasedConfig()))
            for name, seen in zip(part, glances, strict=True):
                found[name] = _reclaimed(client, name, config) if seen.late else seen.backlog
        return found
    finally:
        if owned:
            client.close()


def _reclaimed(client: Any, name: str, config: LeasedConfig | None) -> Backlog:
    with LeasedQueue(client, name, config) as queue:
        return queue.backlog()


def _run(client: Any, names: Sequence[str], config: LeasedConfig | None, exchange: Exchange[Any]) -> Any:
    from rmq_core.exchange.public import sync_driver  # loads redis-py; importing this must not

    driver = sync_driver(client, LeasedKeys(names[0]).prefix, (config or LeasedConfig()).retry_budget_s)
    try:
        return driver.run(exchange)
    finally:
        driver.close()
