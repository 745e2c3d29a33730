"""`RedisQueueSparkComponent`: an asset whose runs hand messages to a Spark job under a lease."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from rmq_core.work import OnSettled
from rmq_dagster.components.base import QueueComponent
from rmq_dagster.components.scaffolding import SparkScaffolder
from rmq_dagster.names import dagster_name
from rmq_dagster.partitions import QueuePartitions
from rmq_dagster.pipes import PipesRedisQueueSparkClient


@dg.scaffold_with(SparkScaffolder)
class RedisQueueSparkComponent(QueueComponent):
    """An asset: its run claims, starts the Spark job under Pipes and succeeds when the messages are settled.

    A job that enters `rmq_spark.adopted_batch` works on the messages and settles them. Spark itself is needed only
    where the job runs.
    """

    asset: dg.ResolvedAssetSpec = Field(description="The asset: key, deps, group_name, description, ...")
    application: str = Field(description="The job's file, beside defs.yaml unless its path is absolute.")
    arguments: list[str] = Field(default=[], description="Command-line arguments of the job.")
    submit: list[str] = Field(
        default=[], description="spark-submit and its options; if empty, pyspark's own spark-submit with this Python."
    )
    env: dict[str, str] = Field(default={}, description="Additional environment variables of the job.")
    max_messages: int = Field(default=1000, description="How many messages a run claims: the batch of its sensor.")
    on_settled: OnSettled = Field(
        default="skip",
        description="How a re-execution proceeds when its messages are all acked: skip, or claim the next ones.",
    )
    retries: int = Field(
        default=0, description="How often Dagster retries with the same messages; 0: the Dagster job's policy, if any."
    )
    retry_delay_seconds: float = Field(default=0, description="Seconds before a retry.")
    stop_grace_seconds: float = Field(default=10, description="Seconds from SIGTERM to SIGKILL on cancelling.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the asset."""
        folder, queues, spec = context.path, self.queues, self.asset
        if isinstance(queues, QueuePartitions):
            spec = spec.replace_attributes(partitions_def=queues.definition)

        @dg.multi_asset(
            specs=[spec],
            name=dagster_name("__".join(spec.key.path)),
            required_resource_keys={self.resource_key},
            retry_policy=self.retry_policy(),
        )
        def spark(context) -> dg.MaterializeResult[Any]:  # type: ignore[no-untyped-def]  # noqa: ANN001  Dagster would compare a string
            return self.execute(context, folder)

        return dg.Definitions(assets=[spark])

    def retry_policy(self) -> dg.RetryPolicy | None:
        """Return None when no retries are requested: a policy of zero would override the job's `op_retry_policy`."""
        return dg.RetryPolicy(max_retries=self.retries, delay=self.retry_delay_seconds) if self.retries else None

    def execute(self, context: dg.AssetExecutionContext, folder: Path) -> dg.MaterializeResult[Any]:
        """Run the job in `folder`, which contains defs.yaml. Override it to add logic that YAML cannot express."""
        pipes = self.client(context)
        command = self.command(folder)
        with pipes.completed(context=context, command=command, env=self.env, cwd=str(folder)) as driver:
            return driver.get_materialize_result()

    def client(self, context: dg.AssetExecutionContext) -> PipesRedisQueueSparkClient:
        """Return the client for the queue of this run."""
        queues = self.queues
        return PipesRedisQueueSparkClient(
            self.redis(context),
            queues.queue_of(context.partition_key) if isinstance(queues, QueuePartitions) else queues,
            self.config,
            max_messages=self.max_messages,
            on_settled=self.on_settled,
            stop_grace_s=self.stop_grace_seconds,
        )

    def command(self, folder: Path) -> list[str]:
        """Return the command line of the driver."""
        submit = self.submit or [sys.executable, "-m", "rmq_spark.submit"]
        return [*submit, str(folder / self.application), *self.arguments]
