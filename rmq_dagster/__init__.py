"""Dagster on RMQ: a resource, a doorbell sensor, and a Pipes client that runs Spark on a lease and acks in the run."""

from __future__ import annotations

from rmq_dagster.pipes import LeasedInvocation, RedisQueueSparkPipes
from rmq_dagster.resources import RedisQueueResource
from rmq_dagster.sensors import build_redis_queue_sensor

__all__ = [
    "LeasedInvocation",
    "RedisQueueResource",
    "RedisQueueSparkPipes",
    "build_redis_queue_sensor",
]
