"""Dagster components in YAML: a queue's sensor, its publisher, its consumers; the queues of a server.

`dg` finds them by an entry point.

One registry module that cannot be imported breaks every `dg` command of an environment, so nothing here imports
pyspark, Airflow or anything else that comes with an extra.
"""

from __future__ import annotations

from rmq_dagster.components.consume import RedisQueueConsumeComponent
from rmq_dagster.components.publish import RedisQueuePublishComponent
from rmq_dagster.components.sensor import RedisQueueSensorComponent
from rmq_dagster.components.server import RedisQueueServerComponent
from rmq_dagster.components.spark import RedisQueueSparkComponent

__all__ = [
    "RedisQueueConsumeComponent",
    "RedisQueuePublishComponent",
    "RedisQueueSensorComponent",
    "RedisQueueServerComponent",
    "RedisQueueSparkComponent",
]
