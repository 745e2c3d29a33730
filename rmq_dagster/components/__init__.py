"""Dagster components: a queue's sensor, publisher and Spark job in YAML. `dg` finds them by the package's entry point.

One registry module that cannot be imported breaks every `dg` command of an environment, so nothing here imports
pyspark, Airflow or anything else that comes with an extra.
"""

from __future__ import annotations

from rmq_dagster.components.publish import RedisQueuePublishComponent
from rmq_dagster.components.sensor import RedisQueueSensorComponent
from rmq_dagster.components.spark import RedisQueueSparkComponent

__all__ = ["RedisQueuePublishComponent", "RedisQueueSensorComponent", "RedisQueueSparkComponent"]
