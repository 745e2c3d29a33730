"""The base of components whose assets work on messages: the asset, its queue, its batch and its retries."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import dagster as dg
from pydantic import Field

from rmq_core.work import OnSettled
from rmq_dagster.components.base import QueueComponent
from rmq_dagster.names import dagster_name, queue_asset_name
from rmq_dagster.partitions import QueuePartitions


class MessageAssetComponent(QueueComponent):
    """An asset each of whose runs works on messages of the queue; with `partitions`, of the queue of its partition."""

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
        """Return the asset's specification, with its partitions, or with the queue as the asset that it depends on."""
        queues = self.queues
        if isinstance(queues, QueuePartitions):
            return self.asset.replace_attributes(partitions_def=queues.definition)
        upstream = dg.AssetKey(queue_asset_name(queues))
        if not self.lineage or any(dep.asset_key == upstream for dep in self.asset.deps):
            return self.asset
        return self.asset.merge_attributes(deps=[upstream])

    def queue_of_run(self, context: dg.AssetExecutionContext) -> str:
        """Return the queue of a run."""
        queues = self.queues
        return queues.queue_of(context.partition_key) if isinstance(queues, QueuePartitions) else queues

    def retry_policy(self) -> dg.RetryPolicy | None:
        """Return None when no retries are requested: a policy of zero would override the job's `op_retry_policy`."""
        return dg.RetryPolicy(max_retries=self.retries, delay=self.retry_delay_seconds) if self.retries else None
