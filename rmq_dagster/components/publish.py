"""`RedisQueuePublishComponent`: an asset that puts messages into a queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import dagster as dg
from pydantic import Field

from rmq_core import ConfigurationError, PublishReport
from rmq_dagster.components.base import QueueComponent
from rmq_dagster.components.scaffolding import PublishScaffolder
from rmq_dagster.names import dagster_name
from rmq_dagster.partitions import QueuePartitions


@dg.scaffold_with(PublishScaffolder)
class RedisQueuePublishComponent(QueueComponent):
    """An asset that publishes what stands in YAML, or what a function returns.

    With `partitions`, the field `partition_by` of a message says to which partition's queue it goes.
    """

    asset: dg.ResolvedAssetSpec = Field(description="The asset: key, deps, group_name, description, ...")
    messages: list[Any] | None = Field(default=None, description="The payloads themselves,")
    function: str | None = Field(
        default=None,
        description="or a function that returns them: package.module.name, or .module.name beside defs.yaml.",
    )
    partition_by: str | None = Field(default=None, description="The field of a message that names its partition.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The asset. ConfigurationError unless its payloads come from exactly one place."""
        if (self.messages is None) == (self.function is None):
            raise ConfigurationError("RedisQueuePublishComponent needs either `messages` or `function`")
        if (self.partitions is None) != (self.partition_by is None):
            raise ConfigurationError("`partitions` and `partition_by` go together: which field names the partition?")
        package = context.defs_relative_module_name(context.path) if self.function else ""

        @dg.multi_asset(
            specs=[self.asset],
            name=dagster_name("__".join(self.asset.key.path)),
            required_resource_keys={self.resource_key},
        )
        def publish(context) -> dg.MaterializeResult[Any]:  # type: ignore[no-untyped-def]  # noqa: ANN001  Dagster would compare a string
            return self.execute(context, package)

        return dg.Definitions(assets=[publish])

    def execute(self, context: dg.AssetExecutionContext, package: str) -> dg.MaterializeResult[Any]:
        """Publish; the counts stand in the metadata. `package`: where a function that begins with a dot is."""
        by_queue = self.sorted(self.payloads(package))
        reports = [self.publish(context, name, payloads) for name, payloads in by_queue.items()]
        return dg.MaterializeResult(
            metadata={
                "rmq/queue": self.queue,
                "rmq/published": sum(report.accepted for report in reports),
                "rmq/duplicates": sum(report.duplicates for report in reports),
                "rmq/queues": len(by_queue),
            }
        )

    def payloads(self, package: str) -> Iterable[Any]:
        """What to publish."""
        if self.function is None:
            return self.messages or []
        module, _, name = self.function.rpartition(".")
        produced: Iterable[Any] = getattr(import_module(module, package), name)()
        return produced

    def sorted(self, payloads: Iterable[Any]) -> dict[str, list[Any]]:
        """The payloads of each queue."""
        queues = self.queues
        if not isinstance(queues, QueuePartitions):
            return {queues: list(payloads)}
        by_queue: dict[str, list[Any]] = {}
        for payload in payloads:
            by_queue.setdefault(queues.queue(self.partition_of(payload)), []).append(payload)
        return by_queue

    def partition_of(self, payload: Any) -> str:
        """The partition of a message. ConfigurationError when it does not say."""
        if not isinstance(payload, Mapping) or self.partition_by not in payload:
            raise ConfigurationError(f"partition_by={self.partition_by!r} is no field of the message {payload!r:.200}")
        return str(payload[self.partition_by])

    def publish(self, context: dg.AssetExecutionContext, name: str, payloads: list[Any]) -> PublishReport:
        """Put payloads into one queue."""
        return self.redis(context).publish(name, payloads, config=self.config)
