"""`RedisQueuePublishComponent`: an asset that puts messages into a queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from rmq_core import ConfigurationError, NewMessage
from rmq_core.orchestrate import by_queue
from rmq_core.reports import PublishReport
from rmq_dagster.components.base import QueueComponent, function_at
from rmq_dagster.components.scaffolding import PublishScaffolder
from rmq_dagster.names import console_link, dagster_name
from rmq_dagster.partitions import QueuePartitions


@dg.scaffold_with(PublishScaffolder)
class RedisQueuePublishComponent(QueueComponent):
    """An asset that publishes the payloads given in YAML, or those that a function returns.

    With `partitions`, the message field that `partition_by` names selects the partition: a queue, or a group.
    """

    asset: dg.ResolvedAssetSpec = Field(description="The asset: key, deps, group_name, description, ...")
    messages: list[Any] | None = Field(default=None, description="The payloads, unless `function` is given.")
    function: str | None = Field(
        default=None,
        description="A function that returns the payloads: package.module.name, or .module.name beside defs.yaml.",
    )
    partition_by: str | None = Field(default=None, description="The field of a message that names its partition.")
    publication: str | None = Field(
        default=None, description="What the messages are a part of, in a queue that has groups: such as a month."
    )
    once: bool = Field(
        default=False,
        description="Publish all messages of a queue in one step, and nothing again in a retry or a re-execution.",
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the asset. Raise ConfigurationError unless its payloads come from exactly one source."""
        if (self.messages is None) == (self.function is None):
            raise ConfigurationError("RedisQueuePublishComponent needs either `messages` or `function`")
        if (self.partitions is None) != (self.partition_by is None):
            raise ConfigurationError(
                "`partitions` and `partition_by`, the field that names one, must be given together"
            )
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
        """Publish and report the counts as metadata. `package`: the base of a function name that begins with a dot."""
        found = self.sorted(self.payloads(package))
        reports = [self.publish(context, name, payloads) for name, payloads in found.items()]
        return dg.MaterializeResult(
            metadata={
                "rmq/queue": self.queue,
                **(console_link(*found) if len(found) == 1 else {}),
                "rmq/published": sum(report.accepted for report in reports),
                "rmq/duplicates": sum(report.duplicates for report in reports),
                "rmq/queues": len(found),
            }
        )

    def payloads(self, package: str) -> Iterable[Any]:
        """Return the payloads to publish."""
        if self.function is None:
            return self.messages or []
        produced: Iterable[Any] = function_at("function", self.function, package)()
        return produced

    def sorted(self, payloads: Iterable[Any]) -> dict[str, list[Any]]:
        """Return the payloads by queue. Raise ConfigurationError if one has no queue, before any is published."""
        queues = self.queues
        if not isinstance(queues, QueuePartitions):
            return {queues: list(payloads)}
        if queues.each_group:
            return {queues.prefix: [NewMessage(each, group=self.partition_of(each)) for each in payloads]}
        return by_queue(payloads, lambda payload: queues.queue(self.partition_of(payload)))

    def partition_of(self, payload: Any) -> str:
        """Return the partition of a message. Raise ConfigurationError when the message lacks the field."""
        if not isinstance(payload, Mapping) or self.partition_by not in payload:
            raise ConfigurationError(f"partition_by={self.partition_by!r} is not a field of message {payload!r:.200}")
        return str(payload[self.partition_by])

    def publish(self, context: dg.AssetExecutionContext, name: str, payloads: list[Any]) -> PublishReport:
        """Put payloads into one queue."""
        if not self.once:
            return self.redis(context).publish(name, payloads, publication=self.publication, config=self.config)
        with self.redis(context).outbox(context, name, config=self.config) as outbox:
            outbox.publish(payloads, publication=self.publication)
        accepted = outbox.count if outbox.published else 0
        return PublishReport(accepted, outbox.count - accepted, 0, ())
