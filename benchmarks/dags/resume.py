"""Two tasks that wait in the triggerer. They measure when they ran again, on a clock that all processes share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, BaseOperator

from benchmarks.airflow_firing import FiringTrigger
from rmq_airflow.sensors.queue import RedisQueueSensor


class Published(RedisQueueSensor):
    """Return the time at which the sensor ran again."""

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> float:
        resumed = time.monotonic()
        super().execute_complete(context, event)
        return resumed


class Fired(BaseOperator):
    """Return the seconds from its trigger's event until it ran again."""

    def execute(self, context: Any) -> None:  # noqa: ARG002  Airflow's signature
        self.defer(trigger=FiringTrigger(), method_name="execute_complete")

    def execute_complete(self, context: Any, event: float) -> float:  # noqa: ARG002  Airflow's signature
        return time.monotonic() - event


with DAG("published", schedule=None):
    Published(task_id="wait", redis_queue="{{ dag_run.conf['queue'] }}", deferrable=True, end_in_trigger=False)

with DAG("fired", schedule=None):
    Fired(task_id="wait")
