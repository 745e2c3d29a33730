"""A job of EMR on EKS.

The sensor claims the messages, the operator submits the job with the lease in its parameters, and the teardown
settles what the driver did not settle. `make submitters` runs this against a stub of the service.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.amazon.aws.operators.emr import EmrContainerOperator
from airflow.sdk import DAG

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

with DAG("totals_on_emr_on_eks", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue="work",
        max_messages=100_000,
        hand_over=timedelta(hours=1),  # the time that a driver has to adopt the lease
        secrets={"password": "aws:prod/redis#password"},
    )
    submit = EmrContainerOperator(
        task_id="submit",
        name="totals",
        virtual_cluster_id="abc",
        execution_role_arn="arn:aws:iam::123456789012:role/job",
        release_label="emr-8.0.0-latest",
        job_driver={
            "sparkSubmitJobDriver": {
                "entryPoint": "s3://jobs/totals.py",
                "entryPointArguments": ["--table", "totals", *wait.driver_parameters],
            }
        },
    )
    conclude = RedisQueueSettleOperator(task_id="conclude", hand_over=wait.output, action="conclude")
    wait >> submit >> conclude.as_teardown(setups=wait)
