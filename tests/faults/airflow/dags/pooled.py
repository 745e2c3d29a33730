"""Mapped tasks of several runs that consume one queue, at most two at a time: by a pool, and by their own limit."""

from __future__ import annotations

import time
from typing import Any

from airflow.sdk import DAG, task

from tests.faults.airflow.ledger import Ledger, fence_of
from tests.faults.airflow.pools import POOL, SHARE, SLOTS, WORK_S

QUEUE = "{{ dag_run.conf['queue'] }}"
BOUNDS: dict[str, dict[str, Any]] = {"pooled": {"pool": POOL}, "bounded": {"max_active_tis_per_dag": SLOTS}}


def consume(messages: Any, share: int) -> int:
    """Work on a batch, for long enough that tasks overlap if nothing prevents it."""
    ledger = Ledger(messages.queue.name)
    for message in messages:
        ledger.have_effect(fence_of(messages.lease.token), message.id, message.payload)
    time.sleep(WORK_S)
    return len(messages)


for name, bound in BOUNDS.items():
    with DAG(name, schedule=None, catchup=False) as dag:
        work = task.redis_queue(queue=QUEUE, max_messages=SHARE, **bound)(consume)
        work.expand(share=[0, 1])
    globals()[name] = dag
