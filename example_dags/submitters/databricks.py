"""A Databricks job, submitted as a one-time run.

The sensor claims the messages, the operator submits the job with the lease in its parameters, and the teardown
settles what the driver did not settle. `make submitters` runs this against a stub of the service.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
from airflow.sdk import DAG

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

with DAG("totals_on_databricks", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue="work",
        max_messages=100_000,
        hand_over=timedelta(hours=1),  # the time that a driver has to adopt the lease
        secrets={"password": "databricks:redis/password"},
    )
    submit = DatabricksSubmitRunOperator(
        task_id="submit",
        json={
            "new_cluster": {"spark_version": "17.3.x-scala2.13", "node_type_id": "m6g.large", "num_workers": 2},
            "libraries": [{"pypi": {"package": "rmq"}}],
            "spark_python_task": {
                "python_file": "dbfs:/jobs/totals.py",
                "parameters": ["--table", "totals", *wait.driver_parameters],
            },
        },
    )
    conclude = RedisQueueSettleOperator(task_id="conclude", hand_over=wait.output, action="conclude")
    wait >> submit >> conclude.as_teardown(setups=wait)
