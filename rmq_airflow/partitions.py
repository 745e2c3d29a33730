"""Asset partitions: a queue for each, `<queue>/<partition>`, or a group, and their keys on the event of an asset.

Law: partition keys come only from tasks. Airflow's triggers, watchers and asset aliases carry none. So where no task
publishes, a task passes on the partitions or groups that a doorbell names in its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from airflow.providers.common.compat.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessor

from rmq_core import ConfigurationError
from rmq_core.orchestrate import by_queue

LONGEST = 250
"""Airflow accepts keys of at most this many characters."""
EMITS_KEYS = hasattr(OutletEventAccessor, "add_partitions")
"""Whether a task of this Airflow can emit partition keys: from 3.3 on."""
PartitionBy: TypeAlias = Callable[[Any], str]


def check_partitions(partition_by: PartitionBy | None, asset: object) -> None:
    """Raise ConfigurationError if the keys could not be emitted with this asset, or with this Airflow."""
    if partition_by is None:
        return
    if not callable(partition_by):
        raise ConfigurationError("`partition_by` must be a function from a payload to its partition key")
    if asset is None:
        return
    if not isinstance(asset, Asset):
        raise ConfigurationError(
            "`partition_by` needs `asset=Asset(…)`, or None for no event: the event of an AssetAlias, which is the "
            "default, cannot carry partition keys"
        )
    if not EMITS_KEYS:
        raise ConfigurationError(
            "`partition_by` with an asset needs Airflow 3.3, in which a task can emit partition keys; with asset=None "
            "it publishes to the queues of the partitions and emits no event"
        )


def apart(queue: str, partition_by: PartitionBy, payloads: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the payloads by partition, in their order.

    Raises ConfigurationError for a key that Airflow or the name of a queue cannot have, before anything is published.
    """
    start = f"{queue}/"

    def queue_of(payload: Any) -> str:
        key = partition_by(payload)
        if not isinstance(key, str) or not key.strip() or len(key) > LONGEST:
            raise ConfigurationError(
                f"`partition_by` must return a text of 1 to {LONGEST} characters, not only blanks, and not {key!r:.80}"
            )
        return start + key

    return {name.removeprefix(start): found for name, found in by_queue(payloads, queue_of).items()}


def partition_keys(triggering_asset_events: Mapping[Any, Sequence[Any]]) -> list[str]:
    """Return the partitions, or groups, that the doorbells of a run reported, as keys of the asset of a task.

    triggering_asset_events: the context's entry of that name. Messages without a group have no key, nor
    has a partition of more than 250 characters. Raises ConfigurationError for a doorbell whose events name neither, and
    before Airflow 3.3, in which a task cannot emit keys.
    """
    if not EMITS_KEYS:
        raise ConfigurationError("`partition_keys` needs Airflow 3.3, in which a task can emit partition keys")
    payloads = [event.extra.get("payload") for events in triggering_asset_events.values() for event in events]
    reports = [found for found in payloads if isinstance(found, dict) and "queue" in found]
    if unnamed := [found["queue"] for found in reports if not {"groups", "partition"} & found.keys()]:
        raise ConfigurationError(
            f"the events of queue {unnamed[0]!r} name neither partition nor groups: give its RedisQueueDoorbellTrigger"
            " `each_partition=True`, `each_group=True`, or `groups`"
        )
    named = (found["groups"] if "groups" in found else [found["partition"]] for found in reports)
    return sorted({name for names in named for name in names if name.strip() and len(name) <= LONGEST})
