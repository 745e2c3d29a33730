"""`RedisQueueSparkComponent`: an asset whose runs hand messages to a Spark job under a lease."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from rmq_dagster.components.base import MessageAssetComponent
from rmq_dagster.components.scaffolding import SparkScaffolder
from rmq_dagster.pipes import PipesRedisQueueSparkClient


@dg.scaffold_with(SparkScaffolder)
class RedisQueueSparkComponent(MessageAssetComponent):
    """An asset: its run claims, starts the Spark job under Pipes and succeeds when the messages are settled.

    A job that enters `rmq_spark.adopted_batch` works on the messages and settles them. Spark itself is needed only
    where the job runs.
    """

    application: str = Field(description="The job's file, beside defs.yaml unless its path is absolute.")
    arguments: list[str] = Field(default=[], description="Command-line arguments of the job.")
    submit: list[str] = Field(
        default=[], description="spark-submit and its options; if empty, pyspark's own spark-submit with this Python."
    )
    env: dict[str, str] = Field(default={}, description="Additional environment variables of the job.")
    stop_grace_seconds: float = Field(default=10, description="Seconds from SIGTERM to SIGKILL on cancelling.")

    def materialized(
        self, context: dg.AssetExecutionContext, loading: dg.ComponentLoadContext
    ) -> dg.MaterializeResult[Any]:
        """Run the job that lies beside the component's defs.yaml."""
        return self.execute(context, loading.path)

    def execute(self, context: dg.AssetExecutionContext, folder: Path) -> dg.MaterializeResult[Any]:
        """Run the job in `folder`, which contains defs.yaml. Override it to add logic that YAML cannot express."""
        pipes = self.client(context)
        command = self.command(folder)
        with pipes.completed(context=context, command=command, env=self.env, cwd=str(folder)) as driver:
            return driver.get_materialize_result()

    def client(self, context: dg.AssetExecutionContext) -> PipesRedisQueueSparkClient:
        """Return the client for the queue, or the partition, of this run."""
        return PipesRedisQueueSparkClient(
            self.redis(context), self.queues, self.config, max_messages=self.max_messages,
            on_settled=self.on_settled, stop_grace_s=self.stop_grace_seconds,
        )  # fmt: skip

    def command(self, folder: Path) -> list[str]:
        """Return the command line of the driver."""
        submit = self.submit or [sys.executable, "-m", "rmq_spark.submit"]
        return [*submit, str(folder / self.application), *self.arguments]
