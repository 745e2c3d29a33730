"""`QueuePartitions`: one queue for each partition, so that the run of a partition claims that partition's messages.

A partition is a permanent row in Dagster's database and a choice in its UI: use one per tenant, region or day, never
one per message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import dagster as dg

from rmq_core import ConfigurationError, LeasedConfig, holding, queues


@dataclasses.dataclass(frozen=True)
class QueuePartitions:
    """The queues `<prefix>/<value>`, each the partition of that value in `definition`.

    >>> tenants = QueuePartitions("orders", dg.DynamicPartitionsDefinition(name="tenants"))
    >>> redis_queue.publish(tenants.queue("Müller & Co"), orders)
    >>> redis_queue.claimed(context, tenants.queue_of(context.partition_key))

    `most`: the number of partitions at which the sensor stops adding new ones; existing ones keep working.
    """

    prefix: str
    definition: dg.DynamicPartitionsDefinition
    most: int = 10_000

    def __post_init__(self) -> None:
        if not self.prefix:
            raise ConfigurationError("prefix must be the common start of the queue names; it is empty")
        if not self.definition.name:
            raise ConfigurationError("definition must be a DynamicPartitionsDefinition with a name")
        if self.most < 1:
            raise ConfigurationError(f"most must be at least 1, not {self.most}")

    def queue(self, value: str) -> str:
        """Return the queue of a value, for publishing."""
        return f"{self.prefix}/{self.key(value)}"

    def queue_of(self, partition_key: str) -> str:
        """Return the queue of a partition, for claiming."""
        return self.queue(unquote(partition_key))

    def key(self, value: str) -> str:
        """Return the percent-encoded partition key of a value; Dagster refuses `...` and control characters in keys."""
        key = quote(value, safe=" ").replace("...", "%2E%2E%2E")
        if not key or len(key) > 255:
            raise ConfigurationError(f"a partition key must have 1 to 255 characters when encoded, not {len(key)}")
        return key

    def value(self, partition_key: str) -> str:
        """Return the value behind a partition key."""
        return unquote(partition_key)

    def among(self, queues: Iterable[str]) -> dict[str, str]:
        """Return the partition key of each of `queues` that belongs to these partitions."""
        start = f"{self.prefix}/"
        found = {queue: queue.removeprefix(start) for queue in queues if queue.startswith(start)}
        return {queue: key for queue, key in found.items() if self._is_key(key)}

    def holding(self, redis: Any, config: LeasedConfig) -> dict[str, str]:
        """Return the partition key of each non-empty queue of these partitions."""
        known = self.among(queues(redis))
        return {name: known[name] for name in holding(redis, known, config)}

    def left_out(self, keys: Mapping[str, str], instance: dg.DagsterInstance) -> list[str]:
        """Return the queues whose partitions are new to Dagster and exceed `most`; `keys`: the key of each queue."""
        known = set(instance.get_dynamic_partitions(self._name))
        new = [queue for queue, key in keys.items() if key not in known]
        return new[max(0, self.most - len(known)) :]

    def refusal(self, left_out: Sequence[str]) -> str:
        """Return why queues are left out, and what to do."""
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        return (
            f"{', '.join(map(repr, left_out[:3]))}{more} left out, all others served: there are most={self.most:,}"
            f" partitions {self._name!r} already. If the name is a typing error, consume its messages and run"
            " `rmq queues forget`; else raise `most` or delete partitions."
        )

    def request(self, keys: Sequence[str], instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
        """Add the partitions that Dagster does not know yet."""
        known = set(instance.get_dynamic_partitions(self._name))  # one query; one for each key took seconds
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        return [self.definition.build_add_request(missing)] if missing else []

    @property
    def _name(self) -> str:
        return str(self.definition.name)

    def _is_key(self, key: str) -> bool:
        """Return whether `self.key` can produce `key`; if not, the queue is unrelated and only shares the prefix."""
        try:
            return self.key(unquote(key)) == key
        except ConfigurationError:
            return False
