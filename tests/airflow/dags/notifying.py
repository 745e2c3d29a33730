"""Tasks whose callbacks publish: one succeeds, one fails twice, and a sensor waits in the triggerer."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from rmq_airflow.notifications.queue import RedisQueueNotifier
from rmq_airflow.sensors.queue import RedisQueueSensor

CALLBACKS = {
    f"on_{kind}_callback": RedisQueueNotifier(redis_queue="told", headers={"callback": kind, "of": "{{ ti.task_id }}"})
    for kind in ("failure", "success", "retry")
}


class PayloadError(Exception):
    """An error whose text must not appear in a message."""


@task(**CALLBACKS)
def good() -> None:
    """Succeed."""


@task(retries=1, retry_delay=timedelta(0), **CALLBACKS)
def bad() -> None:
    raise PayloadError("the text of a payload")


with DAG("notifying", schedule=None, catchup=False) as dag:
    good()
    bad()

with DAG("notifying_from_the_trigger", schedule=None, catchup=False) as deferred_dag:
    RedisQueueSensor(
        task_id="wait",
        redis_queue="work",
        deferrable=True,
        start_from_trigger=True,
        **CALLBACKS,
    )
