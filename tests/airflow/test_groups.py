"""Tasks that wait for, and claim, messages of some groups only."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG
from airflow.triggers.base import TriggerEvent

from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.drain import Bounds, Drain
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_airflow.triggers.sensor import RedisQueueTrigger
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger
from rmq_core import ConfigurationError, LeasedQueue, Unsupported
from tests.airflow.conftest import QUEUE, MakeContext
from tests.faults.patience import PATIENCE_S


@pytest.fixture
def tenants(queue: LeasedQueue) -> LeasedQueue:
    """Let two tenants have messages in the queue."""
    queue.admin.configure(groups="fair")
    queue.publish_many(["a1", "a2"], group="a")
    queue.publish_many(["b1", "b2", "b3"], group="b")
    return queue


def sensor(**options: Any) -> RedisQueueSensor:
    return RedisQueueSensor(task_id="wait", redis_queue=QUEUE, poke_interval=0.05, **options)


def test_a_sensor_counts_the_messages_of_its_groups(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    operator = sensor(groups=["b"], min_messages=3)
    assert operator.execute(task_context(operator))["ready"] == 3
    deferring = sensor(groups=("a", "absent"), min_messages=3, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        deferring.execute(task_context(deferring))
    _, arguments = deferred.value.trigger.serialize()
    assert arguments["groups"] == ["a", "absent"]


def test_a_sensor_hands_over_the_messages_of_its_groups(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    operator = sensor(groups=["b"], hand_over=True)
    handed = operator.execute(task_context(operator))
    assert (handed["ready"], handed["claimed"]) == (3, 3)
    lease = tenants.adopt(handed["lease_id"])
    assert [message.payload for message in tenants.messages(lease)] == ["b1", "b2", "b3"]
    again = sensor(groups=["b"], hand_over=True)
    assert not again.poke(task_context(again, run_id="other")).is_done


async def test_a_trigger_waits_for_messages_of_its_groups(connection: str, tenants: LeasedQueue) -> None:
    events = RedisQueueTrigger(QUEUE, min_messages=3, groups=["a"]).run()
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.to_thread(tenants.publish, "b4", group="b")
    await asyncio.wait([waiting], timeout=0.5)
    assert not waiting.done()
    await asyncio.to_thread(tenants.publish, "a3", group="a")
    event = await asyncio.wait_for(waiting, PATIENCE_S)
    assert isinstance(event, TriggerEvent)
    assert event.payload["report"]["ready"] == 3


async def test_a_doorbell_rings_for_messages_of_its_groups(connection: str, tenants: LeasedQueue) -> None:
    doorbell = RedisQueueDoorbellTrigger(QUEUE, min_messages=4, groups=["b"])
    path, arguments = doorbell.serialize()
    assert (path.rpartition(".")[2], arguments["groups"]) == ("RedisQueueDoorbellTrigger", ["b"])
    ringing = asyncio.ensure_future(anext(doorbell.run()))
    await asyncio.to_thread(tenants.publish_many, ["a3", "a4"], group="a")
    await asyncio.wait([ringing], timeout=0.5)
    assert not ringing.done()
    await asyncio.to_thread(tenants.publish, "b4", group="b")
    event = await asyncio.wait_for(ringing, PATIENCE_S)
    assert event.payload["ready"] == 4


def test_a_task_gets_the_messages_of_its_groups(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    with DAG("dag", schedule=None):
        operator = redis_queue_task(
            lambda messages: list(messages.payloads), task_id="work", queue=QUEUE, groups=["a"], max_messages=9
        )().operator
    assert operator.execute(task_context(operator)) == ["a1", "a2"]
    assert tenants.stats().ready == 3


def test_the_names_of_groups_may_be_templates(connection: str, tenants: LeasedQueue, task_context: MakeContext) -> None:
    operator = sensor(groups=['{{ "b" }}'], min_messages=3)
    context = task_context(operator)
    operator.render_template_fields(context)
    assert operator.execute(context)["ready"] == 3


def test_groups_are_refused_where_a_batch_is_adopted_and_where_a_queue_has_none(
    connection: str, queue: LeasedQueue, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DAG("dag", schedule=None), pytest.raises(ConfigurationError, match="`groups` apply only to claiming"):
        redis_queue_task(lambda messages: None, task_id="work", hand_over={}, groups=["a"])()
    queue.publish("x")
    operator = sensor(groups=["a"])
    with pytest.raises(ConfigurationError, match=f"rmq configure {QUEUE} groups=fair"):
        operator.execute(task_context(operator))
    queue.admin.purge("ready")


def test_groups_of_another_discipline_are_refused(
    connection: str, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch, secured_url: str
) -> None:
    location = secured_url.replace("redis://", "redis-queue://")
    monkeypatch.setenv("AIRFLOW_CONN_REDIS_QUEUE_JOBS", f"{location}?discipline=jobs")
    operator = sensor(groups=["a"], redis_queue_conn_id="redis_queue_jobs")
    with pytest.raises(Unsupported, match=r"'jobs' has no groups.*use leased"):
        operator.execute(task_context(operator))


def test_a_drain_of_some_groups_leaves_the_others_and_a_retry_gets_what_a_killed_try_held(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    operator = RedisQueueConsumeOperator(
        task_id="drain", redis_queue=QUEUE, on_message=lambda message: seen.append(message.payload), batch_size=2,
        groups=['{{ "b" }}', "absent"],
    )  # fmt: skip
    seen: list[Any] = []
    killed = Drain(tenants, TaskIdentity.of(task_context(operator)), Bounds(batch_size=2), ["b"])
    assert len(next(killed.batches())) == 2
    tenants.publish("a3", group="a")
    retry = task_context(operator, try_number=2)
    operator.render_template_fields(retry)
    assert operator.execute(retry)["claimed"] == 3
    assert seen == ["b1", "b2", "b3"]
    assert [group.name for group in tenants.admin.groups()] == ["a"]


def test_a_drain_of_some_groups_is_refused_where_the_core_refuses(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    with pytest.raises(ConfigurationError, match="groups must be a list of names"):
        RedisQueueConsumeOperator(task_id="drain", redis_queue=QUEUE, on_message=print, groups="b")
    tenants.admin.configure(rate="50/1m")
    operator = RedisQueueConsumeOperator(task_id="drain", redis_queue=QUEUE, on_message=print, groups=["b"])
    with pytest.raises(ConfigurationError, match="rate"):
        operator.execute(task_context(operator))
