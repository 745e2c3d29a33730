# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""The definitions under test: an asset whose driver is a few lines of Python instead of Spark."""

import json
import sys
from pathlib import Path
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import LeasedInvocation, PipesRedisQueueSparkClient, RedisQueueResource

CONFIG = LeasedConfig(lease=30, max_deliveries=5)
DRIVER = Path(__file__).parent / "driver.py"
ROOT = Path(__file__).parent.parent.parent


class Work(dg.ConfigurableResource[Any]):
    """The behaviour of the asset: `behaviours` are those of the driver, try by try; the last one is repeated."""

    queue: str
    behaviours: list[str]
    seen: str
    max_messages: int = 100
    on_settled: str = "skip"
    interpreter: str = sys.executable

    def run(self, context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> LeasedInvocation:
        tries = tries_so_far(Path(self.seen))
        behaviour = self.behaviours[min(tries, len(self.behaviours) - 1)]
        on_settled: Any = self.on_settled
        pipes = PipesRedisQueueSparkClient(
            redis_queue, self.queue, CONFIG, max_messages=self.max_messages, on_settled=on_settled, stop_grace_s=2
        )
        command = [self.interpreter, str(DRIVER), behaviour, self.seen]
        return pipes.run(context=context, command=command, env={"PYTHONPATH": str(ROOT)})


@dg.asset
def worked(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource, work: Work) -> dg.MaterializeResult[Any]:
    return work.run(context, redis_queue).get_materialize_result()


@dg.asset(name="worked", retry_policy=dg.RetryPolicy(max_retries=1))
def worked_with_a_retry(
    context: dg.AssetExecutionContext, redis_queue: RedisQueueResource, work: Work
) -> dg.MaterializeResult[Any]:
    return work.run(context, redis_queue).get_materialize_result()


def tries_so_far(seen: Path) -> int:
    return len(notes(seen))


def todays() -> list[str]:
    """The messages that a publisher of the tests publishes."""
    return ["today's first", "today's second"]


def notes(seen: Path) -> list[dict[str, Any]]:
    """Return what each driver received, in the order in which they started."""
    return [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []


def launched() -> dg.JobDefinition:
    """The same as a job that is configured at its launch; `TEST_RMQ_URL` is the URL of Redis."""
    return _job(worked, dg.in_process_executor)


def launched_with_a_retry() -> dg.JobDefinition:
    """The same with a retry policy, which Dagster applies even when a step is canceled."""
    return _job(worked_with_a_retry, dg.in_process_executor)


def launched_in_processes() -> dg.JobDefinition:
    """The same, with each step in its own process, as Dagster does by default."""
    return _job(worked, dg.multiprocess_executor)


def _job(asset: dg.AssetsDefinition, executor: dg.ExecutorDefinition) -> dg.JobDefinition:
    redis_queue = RedisQueueResource(url=dg.EnvVar("TEST_RMQ_URL"))
    work = dg.define_asset_job("work", executor_def=executor)
    resources = {"redis_queue": redis_queue, "work": Work.configure_at_launch()}
    return dg.Definitions(assets=[asset], jobs=[work], resources=resources).resolve_job_def("work")
