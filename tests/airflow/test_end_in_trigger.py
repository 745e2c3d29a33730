"""A deferred sensor that its trigger ends, so that no worker has to resume it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow import __version__ as airflow_version
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import Asset
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent, TriggerEvent

from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_airflow.triggers.depth import RedisQueueDepthTrigger
from rmq_airflow.triggers.sensor import RedisQueueTrigger
from tests.airflow.conftest import QUEUE, MakeContext
from tests.airflow.runs import scheduled
from tests.faults.patience import PATIENCE_S

RETRIES_COUNT = tuple(map(int, airflow_version.split(".")[:2])) >= (3, 3)


def fired(trigger: Any) -> TriggerEvent:
    async def only() -> TriggerEvent:
        (event,) = [event async for event in trigger.run()]
        return event  # type: ignore[no-any-return]

    return asyncio.run(asyncio.wait_for(only(), PATIENCE_S))


def deferred(context: MakeContext, **options: Any) -> Any:
    made = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, deferrable=True, **options)
    with pytest.raises(TaskDeferred) as raised:
        made.execute(context(made))
    return raised.value.trigger


def test_the_trigger_ends_the_task_with_the_report_that_a_worker_would_return(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    trigger = deferred(task_context, max_messages=2)
    queue.publish_many("abc")
    event = fired(trigger)
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms is not None
    report: Any = event.xcoms["return_value"]
    assert (report["queue"], report["ready"], set(report)) == (QUEUE, 2, {"queue", "ready", "oldest_age"})


def test_a_count_is_reported_in_the_same_form(connection: str, queue: Any, task_context: MakeContext) -> None:
    trigger = deferred(task_context, count="depth", poke_interval=0.05, max_messages=1)
    assert isinstance(trigger, RedisQueueDepthTrigger)
    queue.publish_many("abc")
    event = fired(trigger)
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms == {"return_value": {"queue": QUEUE, "depth": 1, "oldest_age": None}}


@pytest.mark.parametrize(
    "options",
    [
        {"end_in_trigger": False},
        {"hand_over": True},
        {"outlets": [Asset("work_is_there")]},
        {"do_xcom_push": False},
        {"on_success_callback": print},
    ],
    ids=str,
)
def test_a_worker_ends_a_task_that_asks_for_it_or_that_does_more_than_to_report(
    options: dict[str, Any], connection: str, queue: Any, task_context: MakeContext
) -> None:
    trigger = deferred(task_context, **options)
    queue.publish("one")
    event = fired(trigger)
    assert type(event) is TriggerEvent
    assert event.payload["status"] == "success"


def test_a_trigger_that_an_earlier_version_stored_resumes_the_task_on_a_worker(connection: str, queue: Any) -> None:
    queue.publish("one")
    stored: dict[str, Any] = {
        "redis_queue": QUEUE,
        "min_messages": 1,
        "max_age": None,
        "redis_queue_conn_id": "redis_queue_default",
    }
    assert fired(RedisQueueTrigger(**stored)).payload["report"]["ready"] == 1


def test_a_connection_that_does_not_work_fails_the_task_where_its_retries_count(
    connection: str, secured_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REDIS_QUEUE_DEFAULT", secured_url.replace("redis://", "redis-queue://nobody:no@"))
    event = fired(RedisQueueTrigger(QUEUE, end_task=True))
    if RETRIES_COUNT:
        assert isinstance(event, TaskFailedEvent)
    else:
        assert event.payload["status"] == "error"


@pytest.mark.slow
@pytest.mark.usefixtures("connection", "airflow_database")
def test_a_sensor_needs_no_worker_from_start_to_end_and_the_next_task_gets_its_report(queue: Any) -> None:
    from airflow.models.trigger import Trigger, handle_event_submit
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    queue.publish_many("abc")
    with create_session() as session:
        run = scheduled("waiting_from_the_start", session)
        waiting = run.get_task_instance("wait", session=session)
        assert waiting is not None
        assert (waiting.state, waiting.next_method) == ("deferred", "execute_complete")
        row = session.get(Trigger, waiting.trigger_id)
        assert row is not None
        handle_event_submit(fired(RedisQueueTrigger(**row.kwargs)), task_instance=waiting, session=session)
        assert (waiting.state, waiting.trigger_id) == ("success", None)
        (stored,) = session.scalars(XComModel.get_many(run_id=run.run_id, task_ids="wait", key="return_value"))
        assert XComModel.deserialize_value(stored)["ready"] == 3
        schedulable, _ = run.update_state(session=session, execute_callbacks=False)
        assert [each.task_id for each in schedulable] == ["seen"]
        session.rollback()
