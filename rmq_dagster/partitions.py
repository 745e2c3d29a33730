"""`QueuePartitions`: one queue for each partition, so that the run of a partition claims that partition's messages.

A partition is a permanent row in Dagster's database and a choice in its UI: let it stand for a tenant, a region or a
day, never for a message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from urllib.parse import quote, unquote

import dagster as dg

from rmq_core import ConfigurationError


@dataclasses.dataclass(frozen=True)
class QueuePartitions:
    """The queues `<prefix>/<value>`, each the partition of that value in `definition`.

    >>> tenants = QueuePartitions("orders", dg.DynamicPartitionsDefinition(name="tenants"))
    >>> redis_queue.publish(tenants.queue("Müller & Co"), orders)
    >>> redis_queue.claimed(context, tenants.queue_of(context.partition_key))

    `most`: how many partitions there may be before the sensor refuses to add another one.
    """

    prefix: str
    definition: dg.DynamicPartitionsDefinition
    most: int = 100

    def __post_init__(self) -> None:
        if not self.prefix:
            raise ConfigurationError("prefix must name what the queues have in common; it is empty")
        if not self.definition.name:
            raise ConfigurationError("definition must be a DynamicPartitionsDefinition with a name")
        if self.most < 1:
            raise ConfigurationError(f"most must be at least 1, not {self.most}")

    def queue(self, value: str) -> str:
        """The queue of a value: publish to it."""
        return f"{self.prefix}/{self.key(value)}"

    def queue_of(self, partition_key: str) -> str:
        """The queue of a partition: claim from it."""
        return self.queue(unquote(partition_key))

    def key(self, value: str) -> str:
        """The partition key of a value: percent-encoded, for Dagster refuses `...` and control characters in keys."""
        key = quote(value, safe=" ").replace("...", "%2E%2E%2E")
        if not key or len(key) > 255:
            raise ConfigurationError(f"a partition key must have 1 to 255 characters when encoded, not {len(key)}")
        return key

    def value(self, partition_key: str) -> str:
        """The value behind a partition key."""
        return unquote(partition_key)

    def among(self, queues: Sequence[str]) -> dict[str, str]:
        """The partition key of each queue that is one of these; ConfigurationError when there are more than `most`."""
        start = f"{self.prefix}/"
        found = {queue: queue.removeprefix(start) for queue in queues if queue.startswith(start)}
        found = {queue: key for queue, key in found.items() if key and self.key(unquote(key)) == key}
        if len(found) > self.most:
            raise ConfigurationError(
                f"{len(found)} queues begin with {start!r}, more than most={self.most}: a partition is for ever; take"
                " a coarser key, or raise `most`"
            )
        return found

    def request(self, keys: Sequence[str], instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
        """Add the partitions that Dagster does not know yet."""
        known = set(instance.get_dynamic_partitions(str(self.definition.name)))
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        return [self.definition.build_add_request(missing)] if missing else []
