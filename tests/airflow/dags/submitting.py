"""A sensor hands messages over to a driver that an operator of another package submits; a teardown concludes."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

ADOPTER = Path(__file__).parents[1] / "jobs" / "adopter.py"

with DAG("submitting", schedule=None, catchup=False) as dag:
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue="work",
        hand_over=timedelta(hours=1),
        secrets={"password": "env:DRIVER_PASSWORD"},
        poke_interval=0.1,
    )
    flag, handover = wait.driver_parameters
    submit = BashOperator(
        task_id="submit",
        bash_command=f"{sys.executable} {ADOPTER} $BEHAVIOUR $MARKER {flag} '{handover}'",
        retries=1,
        retry_delay=timedelta(seconds=0.1),
    )
    conclude = RedisQueueSettleOperator(task_id="conclude", hand_over=wait.output, action="conclude")
    wait >> submit >> conclude.as_teardown(setups=wait)
