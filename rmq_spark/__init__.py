"""Spark on RMQ: the driver claims or adopts a lease, the executors read it, and success acks it."""

from __future__ import annotations

from rmq_spark.batch.claimed import BatchPolicy, ClaimedBatch, adopted_batch, claimed_batch
from rmq_spark.batch.watch import exit_with_parent
from rmq_spark.data_source import RmqDataSource
from rmq_spark.place.source import named_publisher
from rmq_spark.read.values import parsed, split_json
from rmq_spark.runtime.java import java_home, spark_environment
from rmq_spark.runtime.session import register, session
from rmq_spark.schema import MESSAGE_SCHEMA
from rmq_spark.stream.draining import drain
from rmq_spark.stream.metrics import RmqMetricsListener, StreamMetrics

__all__ = [
    "MESSAGE_SCHEMA", "BatchPolicy", "ClaimedBatch", "RmqDataSource", "RmqMetricsListener", "StreamMetrics",
    "adopted_batch", "claimed_batch", "drain", "exit_with_parent", "java_home", "named_publisher", "parsed", "register",
    "session", "spark_environment", "split_json",
]  # fmt: skip
