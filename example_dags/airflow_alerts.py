"""Check a queue. When the check fails, publish a message to another queue, which people read.

The check fails when a message is dead, or when the oldest has waited for an hour. Its callback publishes to the queue
`to-look-at`. For an hour, its deduplication drops what later checks would repeat.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from rmq_airflow.notifications.queue import RedisQueueNotifier
from rmq_airflow.operators.check import RedisQueueCheckOperator
from rmq_core.orchestrate import LimitBounds, StatsLimits

QUEUE = "airport-months-to-check"

with DAG("alerts", schedule=timedelta(minutes=10), catchup=False, tags=["rmq", "example"]) as dag:
    # [START howto_notifier_redis_queue]
    check = RedisQueueCheckOperator(
        task_id="check",
        redis_queue=QUEUE,
        limits=StatsLimits(oldest_age=LimitBounds(warn=600, error=3600), dead_letters=LimitBounds(error=0)),
        on_failure_callback=RedisQueueNotifier(
            redis_queue="to-look-at",
            payload={
                "queue": QUEUE,
                "why": "{{ exception | default('the task was killed') }}",
                "log": "{{ ti.log_url }}",
            },
            dedup_key=f"{QUEUE} is above a limit",
        ),
    )
    # [END howto_notifier_redis_queue]


if __name__ == "__main__":
    dag.test()
