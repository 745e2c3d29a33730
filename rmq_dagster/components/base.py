"""Fields that all components of a queue share, and the base of assets that work on messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any

import dagster as dg
from pydantic import Field

from rmq_core import ConfigurationError, LeasedConfig
from rmq_core.orchestrate import OnSettled
from rmq_dagster.names import dagster_name, queue_asset_name
from rmq_dagster.partitions import QueuePartitions, named_after
from rmq_dagster.resources import RedisQueueResource, resource_in


class QueueSettings(dg.Model, dg.Resolvable):
    """Settings of a queue; those that are not given have the values of `LeasedConfig`."""

    lease_seconds: float = Field(default=300, description="How long a claim holds unless a heartbeat extends it.")
    max_deliveries: int = Field(default=10, description="A message that failed this many times becomes a dead letter.")
    dedup: bool = Field(default=False, description="Publish each payload once within the deduplication window.")
    dedup_window_seconds: float = Field(default=3600, description="How long a payload is remembered.")

    def config(self) -> LeasedConfig:
        """Return the settings as the core's configuration object."""
        return LeasedConfig(
            lease=self.lease_seconds,
            max_deliveries=self.max_deliveries,
            dedup=self.dedup,
            dedup_window=self.dedup_window_seconds,
        )


class QueueComponent(dg.Component, dg.Resolvable, dg.Model, ABC):
    """A component around one queue, or around one queue for each partition."""

    queue: str = Field(description="Name of the queue, or, with `partitions`, the prefix of their queue names.")
    partitions: str | None = Field(
        default=None, description="Name of the dynamic partitions, each of which has the queue `<queue>/<partition>`."
    )
    each_group: bool = Field(
        default=False, description="The partitions are the groups of the one queue `queue`, and not queues."
    )
    most_partitions: int = Field(
        default=10_000, description="A sensor adds no partitions beyond this number; existing ones keep working."
    )
    settings: QueueSettings | None = Field(
        default=None,
        description="Settings of the queue, the same in all of its components. None: those of the resource.",
    )
    resource_key: str = Field(default="redis_queue", description="The key of the project's RedisQueueResource.")

    @property
    def config(self) -> LeasedConfig | None:
        """Return the queue's own configuration, or None to use that of the resource."""
        return None if self.settings is None else self.settings.config()

    @property
    def queues(self) -> str | QueuePartitions:
        """Return the queue, or the queues of the partitions."""
        if self.partitions is None:
            if self.each_group:
                raise ConfigurationError("each_group needs `partitions`, the name of those that the groups are")
            return self.queue
        definition = dg.DynamicPartitionsDefinition(name=self.partitions)
        return QueuePartitions(self.queue, definition, self.most_partitions, self.each_group)

    def redis(self, context: Any) -> RedisQueueResource:
        """Return the resource from the context of a step."""
        return resource_in(context, self.resource_key)


def function_at(attribute: str, name: str, package: str) -> Callable[..., Any]:
    """Return the function that an attribute of YAML names. Raises ConfigurationError if the name has none.

    package: the base of a name that begins with a dot.
    """
    module, _, own = name.rpartition(".")
    if not own or not module.strip("."):
        raise ConfigurationError(f"{attribute} must be package.module.name or .module.name, not {name!r}")
    found = getattr(import_module(module, package), own, None)
    if not callable(found):
        raise ConfigurationError(f"{attribute} names {own!r}, which is no function in module {module!r}")
    return found  # type: ignore[no-any-return]


class MessageAssetComponent(QueueComponent):
    """An asset each of whose runs works on messages of the queue; with `partitions`, on those of its partition."""

    asset: dg.ResolvedAssetSpec = Field(description="The asset: key, deps, group_name, owners, kinds, ...")
    max_messages: int = Field(default=1000, description="How many messages a run claims: the batch of its sensor.")
    on_settled: OnSettled = Field(
        default="skip",
        description="How a re-execution proceeds when its messages are all acked: skip, or claim the next ones.",
    )
    retries: int = Field(
        default=0, description="How often Dagster retries with the same messages; 0: the Dagster job's policy, if any."
    )
    retry_delay_seconds: float = Field(default=0, description="Seconds before a retry.")
    pool: str | None = Field(
        default=None, description="Dagster's concurrency pool; its limit is how many steps work at once."
    )
    lineage: bool = Field(
        default=True, description="Whether the asset depends on the asset of its queue, `<queue>_queue`."
    )

    @abstractmethod
    def materialized(
        self, context: dg.AssetExecutionContext, loading: dg.ComponentLoadContext
    ) -> dg.MaterializeResult[Any]:
        """Work on the messages of a run, and return what the asset reports."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the asset."""
        loading, spec = context, self.spec

        @dg.multi_asset(
            specs=[spec],
            name=dagster_name("__".join(spec.key.path)),
            required_resource_keys={self.resource_key},
            retry_policy=self.retry_policy(),
            pool=self.pool,
        )
        def work(context) -> dg.MaterializeResult[Any]:  # type: ignore[no-untyped-def]  # noqa: ANN001  Dagster would compare a string
            return self.materialized(context, loading)

        return dg.Definitions(assets=[work])

    @property
    def spec(self) -> dg.AssetSpec:
        """Return the asset's specification, with its partitions, and with the queue as the asset that it depends on."""
        queues, spec = self.queues, self.asset
        if isinstance(queues, QueuePartitions):
            spec = spec.replace_attributes(partitions_def=queues.definition)
        upstream = dg.AssetKey(queue_asset_name(named_after(queues)))
        if not self.lineage or any(dep.asset_key == upstream for dep in spec.deps):
            return spec
        return spec.merge_attributes(deps=[upstream])

    def retry_policy(self) -> dg.RetryPolicy | None:
        """Return None when no retries are requested: a policy of zero would override the job's `op_retry_policy`."""
        return dg.RetryPolicy(max_retries=self.retries, delay=self.retry_delay_seconds) if self.retries else None
