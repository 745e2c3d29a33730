"""Work that arrives at any time: a doorbell trigger starts a run, and the run drains the queue.

Nothing polls, and no worker slot is occupied while waiting. The watcher emits events while at least one airport-month
is ready, and the run claims months until none is left. An event says only that there is work: a run that finds none
succeeds and reports claimed=0.
"""

from __future__ import annotations

from airflow.sdk import DAG, Asset, AssetWatcher
from weather import summarise

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger
from rmq_core import Message

QUEUE = "airport-months-that-arrive"
FOLDER = "event_driven"

# [START howto_trigger_redis_queue_doorbell]
months = Asset(
    "airport-months",
    uri=f"rmq://localhost:6379/0/{QUEUE}",
    watchers=[AssetWatcher(name="doorbell", trigger=RedisQueueDoorbellTrigger(QUEUE))],
)
# [END howto_trigger_redis_queue_doorbell]


def work(message: Message) -> None:
    """Process one message. It is acked on return; if this raises, it is nacked, and the others are processed."""
    summarise(message.payload, FOLDER)  # type: ignore[arg-type]  # it was published as a dict


with DAG("event_driven", schedule=[months], catchup=False, max_active_runs=1):
    RedisQueueConsumeOperator(task_id="work", redis_queue=QUEUE, on_message=work)
