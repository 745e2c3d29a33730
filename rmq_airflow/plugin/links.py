"""The links of tasks to their queue, found in the API server: also of tasks that no worker ended.

A task that its trigger ended, or that was killed, left no link. Its queue is that of the rendered fields, which Airflow
stores before a task begins, or that of the DAG; its lease has the task's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from rmq_airflow.batch import is_template
from rmq_airflow.links import CLAIMING, RedisQueueLink, identity_of, link

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

MODULES = {
    "RedisQueueConsumeOperator": "rmq_airflow.operators.consume",
    "RedisQueuePublishOperator": "rmq_airflow.operators.publish",
    "RedisQueueRedriveOperator": "rmq_airflow.operators.redrive",
    "RedisQueueCheckOperator": "rmq_airflow.operators.check",
    "RedisQueueSettleOperator": "rmq_airflow.operators.settle",
    "RedisQueueSparkSubmitOperator": "rmq_airflow.operators.spark_submit",
    "RedisQueueSensor": "rmq_airflow.sensors.queue",
    "RedisQueueDecoratedOperator": "rmq_airflow.decorators.redis_queue",
}


class FoundLink(RedisQueueLink):
    """The link that a task left, or else the one that it would have left."""

    # Airflow compares names of classes and modules only. The classes themselves would load Spark into the API server.
    operators = [type(name, (), {"__module__": module}) for name, module in MODULES.items()]  # noqa: RUF012  Airflow's own form

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the queue's page; empty if the API server cannot know the queue. Blocks."""
        left = _left(self.xcom_key, ti_key)
        if left is not None:
            return left
        rendered = _rendered(ti_key)
        task = identity_of(ti_key) if operator.task_type in CLAIMING else None
        return link(lambda name: rendered.get(name) or _plain(operator, name), task)


def _left(xcom_key: str, key: TaskInstanceKey) -> str | None:
    """Return the link of the XCom; depending on how Airflow stored it, the column holds the text or its JSON."""
    names: dict[str, Any] = {"dag_ids": key.dag_id, "task_ids": key.task_id, "map_indexes": key.map_index}
    with create_session(scoped=False) as session:
        query = XComModel.get_many(run_id=key.run_id, key=xcom_key, **names)
        value = session.scalar(query.with_only_columns(XComModel.value))
    if not isinstance(value, str):
        return None
    return (str(json.loads(value)) if value.startswith('"') else value) or None


def _rendered(key: TaskInstanceKey) -> Mapping[str, Any]:
    names = {"dag_id": key.dag_id, "task_id": key.task_id, "run_id": key.run_id, "map_index": key.map_index}
    fields = select(RenderedTaskInstanceFields.rendered_fields).filter_by(**names)
    with create_session(scoped=False) as session:
        return session.scalar(fields) or {}


def _plain(operator: Any, name: str) -> Any:
    """Return an argument as the DAG has it; None for a template."""
    value = getattr(operator, name, None) or getattr(operator, "partial_kwargs", {}).get(name)
    return None if isinstance(value, str) and is_template(value) else value
