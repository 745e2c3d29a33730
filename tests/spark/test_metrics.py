from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyspark.sql import SparkSession

from rmq_core import LeasedQueue
from rmq_spark import RmqMetricsListener, StreamMetrics
from tests.spark.conftest import wait_for
from tests.spark.readers import publish
from tests.spark.streams import Batches, Stream


def test_a_stream_reports_its_lag_rate_and_lease_margin(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    told: list[StreamMetrics] = []
    collected = InMemoryMetricReader()
    meter = MeterProvider([collected]).get_meter("test")
    listener = RmqMetricsListener(redis_url, told.append, meter=meter)
    publish(queue, 30)
    queue.publish("later", delay=3600)
    spark.streams.addListener(listener)
    try:
        Stream(spark, redis_url, tmp_path, maxMessagesPerBatch=10, leaseDuration="1 hour").drain(Batches())
        wait_for(lambda: sum(metrics.rows for metrics in told) == 30, 60)
    finally:
        spark.streams.removeListener(listener)
    assert {(metrics.queue, metrics.consumer) for metrics in told} == {("work", "c")}
    assert all(metrics.rows_per_s > 0 for metrics in told if metrics.rows)
    assert all(metrics.lease_margin_s is None or 1200 < metrics.lease_margin_s <= 3600 for metrics in told)
    assert told[-1].lag == 0
    names = {point.name for kind in exported(collected) for point in kind}
    assert {"rmq.stream.lag", "rmq.stream.rate", "rmq.stream.dead"} <= names


def exported(collected: InMemoryMetricReader) -> list[list[object]]:
    data = collected.get_metrics_data()
    assert data is not None
    return [scope.metrics for resource in data.resource_metrics for scope in resource.scope_metrics]


@pytest.mark.parametrize("harm", ["raises", "no server"])
def test_a_failing_listener_does_not_affect_its_query(
    harm: str, caplog: pytest.LogCaptureFixture, redis_url: str
) -> None:
    def on_metrics(metrics: StreamMetrics) -> None:
        raise ZeroDivisionError

    from rmq_spark.stream.batch_leases import Offset

    url = redis_url if harm == "raises" else "redis://127.0.0.1:1"
    listener = RmqMetricsListener(url, on_metrics)
    if harm == "no server":
        from rmq_spark.place.source import Source

        listener._queues["work"] = Source(listener._settings, "work").open(retry_budget=0.01)
    listener.report(Offset("work", "c", "s", 1), 1, 1, 1.0)
    assert ("on_metrics raised" if harm == "raises" else "no metrics of queue") in caplog.text
