"""A SparkApplication of Kubernetes, run by the Spark operator.

The sensor claims the messages, the operator submits the job with the lease in its parameters, and the teardown
settles what the driver did not settle. `make submitters` runs this against a stub of the service.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
from airflow.sdk import DAG

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

with DAG("totals_on_spark_kubernetes", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue="work",
        max_messages=100_000,
        hand_over=timedelta(hours=1),  # the time that a driver has to adopt the lease
        secrets={"password": "env:REDIS_PASSWORD"},
    )
    submit = SparkKubernetesOperator(
        task_id="submit",
        name="totals",
        template_spec={
            "spark": {
                "apiVersion": "sparkoperator.k8s.io/v1beta2",
                "kind": "SparkApplication",
                "metadata": {"name": "totals"},
                "spec": {
                    "type": "Python",
                    "mode": "cluster",
                    "sparkVersion": "4.1.1",
                    "image": "registry/totals:1",
                    "mainApplicationFile": "local:///opt/totals.py",
                    "arguments": ["--table", "totals", *wait.driver_parameters],
                    "driver": {
                        "cores": 1,
                        "memory": "2g",
                        "envSecretKeyRefs": {"REDIS_PASSWORD": {"name": "redis", "key": "password"}},
                    },
                    "executor": {"cores": 2, "instances": 2, "memory": "4g"},
                },
            }
        },
    )
    conclude = RedisQueueSettleOperator(task_id="conclude", hand_over=wait.output, action="conclude")
    wait >> submit >> conclude.as_teardown(setups=wait)
