"""A batch of Google Dataproc.

The sensor claims the messages, the operator submits the job with the lease in its parameters, and the teardown
settles what the driver did not settle. `make submitters` runs this against a stub of the service.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.google.cloud.operators.dataproc import DataprocCreateBatchOperator
from airflow.sdk import DAG

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

with DAG("totals_on_dataproc", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue="work",
        max_messages=100_000,
        hand_over=timedelta(hours=1),  # the time that a driver has to adopt the lease
        secrets={"password": "gcp:projects/project/secrets/redis/versions/1"},
    )
    submit = DataprocCreateBatchOperator(
        task_id="submit",
        project_id="project",
        region="europe-west3",
        batch_id="totals-{{ ts_nodash | lower }}-{{ ti.try_number }}",  # one for each try
        batch={
            "pyspark_batch": {
                "main_python_file_uri": "gs://jobs/totals.py",
                "args": ["--table", "totals", *wait.driver_parameters],
            },
            "runtime_config": {"container_image": "europe-docker.pkg.dev/project/jobs/totals:1"},
        },
    )
    conclude = RedisQueueSettleOperator(task_id="conclude", hand_over=wait.output, action="conclude")
    wait >> submit >> conclude.as_teardown(setups=wait)
