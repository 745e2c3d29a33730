"""A DAG for each situation: the doorbell of its queue starts runs, as the documentation recommends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from rmq_airflow.triggers.doorbell import RedisQueueDoorbellTrigger
from tests.faults.situations.work import BATCH, CONFIG, DAYS, FAN_OUT, LIVE, SHARE, SHARES, rest, work

RETRIES = {"retries": 1, "retry_delay": timedelta(seconds=5)}
OPTIONS: dict[str, Any] = {"catchup": False, "default_args": RETRIES}


def rung(queue: str, min_messages: int = 1, **options: Any) -> list[Asset]:
    """Return a schedule: events while the queue has so many messages."""
    bell = RedisQueueDoorbellTrigger(queue, min_messages, **options)
    return [Asset(queue, uri=f"rmq://localhost:6379/0/{queue}", watchers=[AssetWatcher(name="doorbell", trigger=bell)])]


def do(messages: Any) -> int:
    """Work on a batch."""
    return work(messages)


def do_share(messages: Any, share: int) -> int:
    """Work on one of the shares."""
    return work(messages)


def do_rest(messages: Any) -> int:
    """Process the messages that are left, such as those of a task that was killed and is not retried."""
    return rest(messages)


for name in LIVE:
    with DAG(name, schedule=rung(name), max_active_runs=4, **OPTIONS) as live:
        task.redis_queue(queue=name, queue_config=CONFIG, max_messages=BATCH, max_batches=None)(do)()
    globals()[name] = live

# A second event, before the run of the first one has claimed, would start twenty tasks for nothing.
with DAG(FAN_OUT, schedule=rung(FAN_OUT, SHARES * SHARE, ring_interval=120), max_active_runs=1, **OPTIONS):
    shares = task.redis_queue(queue=FAN_OUT, queue_config=CONFIG, max_messages=SHARE)(do_share).expand(
        share=list(range(SHARES))
    )
    left = task.redis_queue(queue=FAN_OUT, queue_config=CONFIG, max_batches=None, trigger_rule="all_done")(do_rest)
    shares >> left()

# Its days are over, so that runs come from backfills only.
with DAG(
    DAYS,
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    end_date=datetime(2026, 1, 31, tzinfo=UTC),
    **OPTIONS,
):
    task.redis_queue(queue="backfill", queue_config=CONFIG, max_messages=BATCH)(do)()
