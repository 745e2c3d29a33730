"""Mapped tasks that share a queue, and a last task that takes the rest, such as the messages of a marked task."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from tests.faults.airflow.fan_out import SHARE, VICTIMS, place_of
from tests.faults.airflow.ledger import Ledger

RETRY = {"retries": 1, "retry_delay": timedelta(seconds=5)}
QUEUE = "{{ dag_run.conf['queue'] }}"


@task
def shares(dag_run: Any = None) -> list[int]:
    """A task for each share."""
    return list(range(dag_run.conf["tasks"]))


@task.redis_queue(queue=QUEUE, max_messages=SHARE, lease=timedelta(minutes=10), **RETRY)
def work(messages: Any, share: int, ti: Any = None) -> int:
    """The first tasks wait while they hold messages; the faults hit them in the meantime."""
    if share < len(VICTIMS) and ti.try_number == 1:
        Ledger(place_of(messages.queue.name, share)).stand_still()
    ledger = Ledger(messages.queue.name)
    for message in messages:
        ledger.have_effect(message.deliveries, message.id, message.payload)
    return len(messages)


@task.redis_queue(queue=QUEUE, max_messages=SHARE, max_batches=None, trigger_rule="all_done", **RETRY)
def rest(messages: Any) -> int:
    """Consume until nothing is left."""
    ledger = Ledger(messages.queue.name)
    for message in messages:
        ledger.have_effect(message.deliveries, message.id, message.payload)
    return len(messages)


with DAG("fan_out", schedule=None, catchup=False):
    work.expand(share=shares()) >> rest()
