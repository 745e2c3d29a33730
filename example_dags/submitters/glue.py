"""A job of AWS Glue, whose arguments are pairs.

The sensor claims the messages, the operator submits the job with the lease in its parameters, and the teardown
settles what the driver did not settle. `make submitters` runs this against a stub of the service.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
from airflow.sdk import DAG

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

with DAG("totals_on_glue", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue="work",
        max_messages=100_000,
        hand_over=timedelta(hours=1),  # the time that a driver has to adopt the lease
        secrets={"password": "aws:prod/redis#password"},
    )
    submit = GlueJobOperator(
        task_id="submit",
        job_name="totals",
        stop_job_run_on_kill=True,  # else a cancelled task leaves its job running
        script_args={"--table": "totals", "--rmq-handover": wait.driver_parameters[1]},
    )
    conclude = RedisQueueSettleOperator(task_id="conclude", hand_over=wait.output, action="conclude")
    wait >> submit >> conclude.as_teardown(setups=wait)
