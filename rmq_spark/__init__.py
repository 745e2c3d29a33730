"""Spark on RMQ: the driver claims or adopts a lease, the executors read it, and success acks it."""

from __future__ import annotations

from rmq_spark.batch import BatchPolicy, ClaimedBatch, adopted_batch, claimed_batch
from rmq_spark.data_source import RmqDataSource
from rmq_spark.java import java_home, spark_environment
from rmq_spark.metrics import RmqMetricsListener, StreamMetrics
from rmq_spark.payloads import parsed, split_json
from rmq_spark.reader import MESSAGE_SCHEMA
from rmq_spark.registration import register
from rmq_spark.session import session
from rmq_spark.shards import shard_names
from rmq_spark.watch import exit_with_parent

__all__ = [
    "MESSAGE_SCHEMA",
    "BatchPolicy",
    "ClaimedBatch",
    "RmqDataSource",
    "RmqMetricsListener",
    "StreamMetrics",
    "adopted_batch",
    "claimed_batch",
    "exit_with_parent",
    "java_home",
    "parsed",
    "register",
    "session",
    "shard_names",
    "spark_environment",
    "split_json",
]
