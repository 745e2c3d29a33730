"""`QueuePartitions`: a queue, or a group of one queue, for each partition, whose run claims that partition's messages.

A dynamic partition is a permanent row in Dagster's database and a choice in its UI: use one per tenant, region or day,
never one per message.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import dagster as dg

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, WorkQueue, backlogs, holding, queues
from rmq_core.orchestrate import tools_of
from rmq_core.reports import Backlog, QueueStats
from rmq_dagster.names import dagster_name, lease_name

REFUSED, LONGEST = "...", 255
GROUPS_LOOKED_AT = 1000  # those with the most messages
_MOVE = "Move the messages to the queue that QueuePartitions.queue returns"
_FORGET = " and run `rmq queues forget`"
_LOOKS_ENCODED = re.compile("%(?=[0-9A-Fa-f]{2})")


def named_after(queue: str | QueuePartitions) -> str:
    """Return the start of the names of Dagster's objects that belong to a queue. Raises ConfigurationError."""
    return dagster_name(queue.prefix if isinstance(queue, QueuePartitions) else queue)


def queue_of(queue: str | QueuePartitions, partition: str | None) -> str:
    """Return the queue of a partition; without partitions, the queue. Raises ConfigurationError for a mix of both."""
    if isinstance(queue, str) != (partition is None):
        raise ConfigurationError("partition must be given for queues of partitions, and for no other queue")
    return queue.queue_of(str(partition)) if isinstance(queue, QueuePartitions) else queue


def groups_of(queue: str | QueuePartitions, partition: str | None) -> list[str] | None:
    """Return the group of a partition, as claims take it; None where partitions are no groups."""
    each_group = isinstance(queue, QueuePartitions) and queue.each_group
    return [queue.value(str(partition))] if each_group else None  # type: ignore[union-attr]


def claimed_from(
    queue: str | QueuePartitions, context: Any, groups: Collection[str] | None = None
) -> tuple[str, Collection[str] | None]:
    """Return from which queue, and from which of its groups, a step claims; of partitions from that of its run."""
    if isinstance(queue, str):
        return queue, groups
    own = groups_of(queue, context.partition_key)
    if own and groups is not None:
        raise ConfigurationError("groups must not be given where each partition is a group")
    return queue.queue_of(context.partition_key), own or groups


def only_queue(queue: str | QueuePartitions) -> str | None:
    """Return the queue; None where each partition has one."""
    if isinstance(queue, str):
        return queue
    return queue.prefix if queue.each_group else None


def stats_of(opened: WorkQueue, groups: Sequence[str] | None) -> QueueStats:
    """Return the numbers of a queue; with `groups`, the ready messages of the first, and the queue's dead letters."""
    stats = opened.stats()
    if groups is None or not isinstance(opened, LeasedQueue):
        return stats
    lines = [line for line in opened.admin.groups(GROUPS_LOOKED_AT) if line.name == groups[0]]
    return stats._replace(
        ready=sum(line.waiting for line in lines), isolated=sum(line.waiting for line in lines if line.isolated),
        oldest_age=opened.backlog(groups=groups).oldest_age if lines else None, delayed=0, leased=0,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class QueuePartitions:
    """The queues `<prefix>/<value>`, each the partition of that value in `definition`; or the groups of one queue.

    >>> tenants = QueuePartitions("orders", dg.DynamicPartitionsDefinition(name="tenants"))
    >>> redis_queue.publish(tenants.queue("Müller & Co"), orders)
    >>> redis_queue.claimed(context, tenants)

    `definition`: dynamic partitions, to which the sensors add the key of each queue that they find; or partitions of
    any other kind, such as static ones or days, where the queues of other keys are left out.
    `most`: the number of dynamic partitions at which the sensors stop adding new ones; existing ones keep working.
    `each_group`: the partitions are the groups of the queue `prefix`: publish to it with `group=value`.
    """

    prefix: str
    definition: dg.PartitionsDefinition
    most: int = 10_000
    each_group: bool = False

    def __post_init__(self) -> None:
        if not self.prefix:
            raise ConfigurationError("prefix must be the common start of the queue names; it is empty")
        if isinstance(self.definition, dg.DynamicPartitionsDefinition) and not self.definition.name:
            raise ConfigurationError("definition must be a DynamicPartitionsDefinition with a name")
        if self.most < 1:
            raise ConfigurationError(f"most must be at least 1, not {self.most}")
        if isinstance(self.definition, dg.StaticPartitionsDefinition):
            for key in self.definition.get_partition_keys():
                if self.key(key) != key:
                    raise ConfigurationError(f"definition has the key {key!r}, which is no part of a queue name")

    def queue(self, value: str) -> str:
        """Return the queue of a value, for publishing."""
        return self.queue_of(self.key(value))

    def queue_of(self, partition_key: str) -> str:
        """Return the queue of a partition, for claiming."""
        return self.prefix if self.each_group else self.named(partition_key)

    def named(self, partition_key: str) -> str:
        """Return the name of a partition in run keys and logs: that of its queue, or `<queue>/<key of the group>`."""
        return f"{self.prefix}/{partition_key}"

    def key(self, value: str) -> str:
        """Return the partition key of a value: the value, percent-encoded where Dagster or a queue name refuses it.

        Those are `...`, control characters and braces. A `%` that already looks like an encoding is encoded too.
        """
        key = _encoded(value)
        if not _is_key(key):
            raise ConfigurationError(f"a partition key must have 1 to 255 characters when encoded, not {len(key)}")
        return key

    def value(self, partition_key: str) -> str:
        """Return the value behind a partition key."""
        return unquote(partition_key)

    def among(self, queues: Iterable[str]) -> dict[str, str]:
        """Return the partition key of each of `queues` that belongs to these partitions: its name after the prefix."""
        start = f"{self.prefix}/"
        return {queue: queue.removeprefix(start) for queue in queues if queue.startswith(start)}

    def holding(self, redis: Any, config: LeasedConfig) -> dict[str, str]:
        """Return the partition key of each non-empty queue of these partitions, or of each group, by its name."""
        if self.each_group:
            with LeasedQueue(redis, self.prefix, config) as queue:
                keys = [_encoded(group.name) for group in queue.admin.groups(GROUPS_LOOKED_AT)]
            return {self.named(key): key for key in keys}
        known = self.among(queues(redis))
        return {name: known[name] for name in holding(redis, known, config)}

    def backlogs(self, redis: Any, keys: Mapping[str, str], config: LeasedConfig, **terms: Any) -> dict[str, Backlog]:
        """Return the backlog of each of these partitions, by its name. `keys`: what `holding` returned."""
        if not self.each_group:
            return backlogs(redis, keys, config, **terms)
        with LeasedQueue(redis, self.prefix, config) as queue:
            queue.backlog()  # reclaims expired leases
            found = tools_of(queue).backlogs_by_group(GROUPS_LOOKED_AT)
        return {name: found.get(self.value(key), Backlog(0, None)) for name, key in keys.items()}

    def runs_at_once(self, redis: Any, config: LeasedConfig, most: int) -> int:
        """Return how many runs of a partition may wait to claim: one where the queue limits the leases of a group."""
        if not self.each_group:
            return most
        with LeasedQueue(redis, self.prefix, config) as queue:
            return most if queue.admin.settings().in_force["groups"].concurrent is None else 1

    def left_out(self, keys: Mapping[str, str], instance: dg.DagsterInstance) -> list[str]:
        """Return the queues, or groups, that get no partition. `keys`: the key of each.

        Dagster refuses the keys of some; others are new to Dagster and exceed `most`, or are no partitions.
        """
        if self._dynamic is None:
            return [queue for queue, key in keys.items() if not self.definition.has_partition_key(key)]
        known = set(instance.get_dynamic_partitions(self._dynamic))
        refused = [queue for queue, key in keys.items() if not _is_key(key)]
        new = [queue for queue, key in keys.items() if _is_key(key) and key not in known]
        return [*refused, *new[max(0, self.most - len(known)) :]]

    def refusal(self, left_out: Sequence[str]) -> str:
        """Return why queues, or groups, are left out, and what to do."""
        part = f"{'the group that' if self.each_group else 'what'} follows {self.prefix + '/'!r} in a name"
        if self._dynamic is None:
            return (
                f"{_some(left_out)} left out, all others served: {part} must be one of the partitions that exist by"
                " now."
            )
        keys = self.among(left_out)
        refused = [name for name in left_out if not _is_key(keys[name])]
        new = [name for name in left_out if _is_key(keys[name])]
        why = {
            f"{part} must be 1 to {LONGEST} characters without {REFUSED!r}, which Dagster refuses."
            f" {'Publish with `group=`' if self.each_group else _MOVE}.": refused,
            f"there are most={self.most:,} partitions {self._dynamic!r} already. If the name is a typing error, consume"
            f" its messages{'' if self.each_group else _FORGET}; else raise `most` or delete partitions.": new,
        }
        return " ".join(f"{_some(names)} left out, all others served: {text}" for text, names in why.items() if names)

    def request(self, keys: Sequence[str], instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
        """Add the partitions that Dagster does not know yet."""
        if not isinstance(self.definition, dg.DynamicPartitionsDefinition):
            return []
        known = set(instance.get_dynamic_partitions(str(self._dynamic)))  # one query; one for each key took seconds
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        return [self.definition.build_add_request(missing)] if missing else []

    @property
    def _dynamic(self) -> str | None:
        """The name of dynamic partitions; None for those of another kind."""
        return self.definition.name if isinstance(self.definition, dg.DynamicPartitionsDefinition) else None


def _encoded(value: str) -> str:
    return lease_name(_LOOKS_ENCODED.sub("%25", value)).replace(REFUSED, "%2E%2E%2E")


def _is_key(key: str) -> bool:
    """Return whether Dagster and its databases accept a key. A queue name has no control characters."""
    return 0 < len(key) <= LONGEST and REFUSED not in key


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(map(repr, names[:3]))}{more}"
