"""A run for each group of a queue into which programs outside Airflow publish.

A doorbell names the groups that have work, a task passes them on as partition keys, and each run works on its group.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, PartitionedAssetTimetable, task

from rmq_airflow.partitions import partition_keys
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger

BELL = AssetWatcher(name="bell", trigger=RedisQueueDoorbellTrigger("uploads", each_group=True))
ARRIVED, UPLOADS = Asset("uploads-arrived", watchers=[BELL]), Asset("uploads")

with DAG("uploads_arrive", schedule=[ARRIVED], catchup=False) as relay:

    @task(outlets=[UPLOADS])
    def pass_on(outlet_events: Any, triggering_asset_events: Any) -> None:
        outlet_events[UPLOADS].add_partitions(partition_keys(triggering_asset_events))

    pass_on()

with DAG("work_on_a_tenant", schedule=PartitionedAssetTimetable(assets=UPLOADS), catchup=False) as consumer:

    @task.redis_queue(queue="uploads", groups=["{{ dag_run.partition_key }}"], max_batches=None)
    def work(messages: Any) -> list[str]:
        return list(messages.payloads)

    work()
