"""A batch of Apache Livy.

The sensor claims the messages, the operator submits the job with the lease in its parameters, and the teardown
settles what the driver did not settle. `make submitters` runs this against a stub of the service.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.apache.livy.operators.livy import LivyOperator
from airflow.sdk import DAG

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

with DAG("totals_on_livy", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue="work",
        max_messages=100_000,
        hand_over=timedelta(hours=1),  # the time that a driver has to adopt the lease
        secrets={"password": "file:/etc/redis/password"},
    )
    submit = LivyOperator(
        task_id="submit",
        file="hdfs:///jobs/totals.py",
        args=["--table", "totals", *wait.driver_parameters],
        polling_interval=10,  # without it the task does not wait for the job
    )
    conclude = RedisQueueSettleOperator(task_id="conclude", hand_over=wait.output, action="conclude")
    wait >> submit >> conclude.as_teardown(setups=wait)
