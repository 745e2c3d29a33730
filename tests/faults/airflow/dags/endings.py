"""Tasks that stand still in the work on the second of three messages, until something ends them; and poison."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from tests.faults.airflow.ledger import Ledger

PLACE = {"redis_queue": "{{ dag_run.conf['queue'] }}", "redis_queue_conn_id": "{{ dag_run.conf['connection'] }}"}
RETRY = {"retry_delay": timedelta(seconds=5)}
POISON = "poison"


def work(message: Any, dag_run: Any) -> None:
    """Log the delivery of the message; stand still at the second one, in the first try only."""
    ledger = Ledger(dag_run.conf["queue"])
    ledger.write("did", message.deliveries, [message.payload])
    if message.payload != "second" or ledger.stands():
        return
    if dag_run.conf["ending"] == "exception":
        (ledger.folder / "stands").touch()
        raise ValueError("on purpose")
    ledger.stand_still()


def die_of_poison(message: Any) -> None:
    """End the process as the kernel does when memory runs out."""
    if message.payload == POISON:
        os.kill(os.getpid(), signal.SIGKILL)


def die_of_batch(batch: Any) -> None:
    """The same, for a batch that is worked on as a whole."""
    for message in batch:
        die_of_poison(message)


for retries in (0, 1):
    for name, timeout in (("ending", None), ("ending_timed", timedelta(seconds=20))):
        with DAG(f"{name}_{retries}", schedule=None, catchup=False, max_active_runs=64) as ending:
            RedisQueueConsumeOperator(
                task_id="work", on_message=work, failed_delay=0, retries=retries, execution_timeout=timeout, **PLACE,
                **RETRY,
            )  # fmt: skip
        globals()[ending.dag_id] = ending

for name, function in {"on_message": die_of_poison, "on_batch": die_of_batch}.items():
    with DAG(f"poison_{name}", schedule=None, catchup=False, max_active_runs=16) as poison:
        RedisQueueConsumeOperator(task_id="work", batch_size=200, **{name: function}, **PLACE)  # type: ignore[arg-type]
    globals()[poison.dag_id] = poison
