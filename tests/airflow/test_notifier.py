"""The notifier, called as a task's process, a DAG processor and a triggerer call it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, AsyncCallback, BaseOperator, DeadlineAlert, DeadlineReference
from airflow.triggers.base import BaseTaskEndEvent, TaskFailedEvent, TaskSuccessEvent

from rmq_airflow.notifications.queue import RedisQueueNotifier
from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, Unsupported
from tests.airflow.conftest import CANARY, MakeContext
from tests.airflow.floor import BELOW_33, CALLBACKS_GET_EXCEPTIONS
from tests.airflow.home import DAGS
from tests.airflow.runs import load, scheduled


@pytest.fixture
def told(connection: str, secured_url: str) -> Iterator[LeasedQueue]:
    """The queue `told`, to which the notifiers publish."""
    with LeasedQueue(secured_url, "told") as queue:
        yield queue


def notifier(**options: Any) -> RedisQueueNotifier:
    return RedisQueueNotifier(**{"redis_queue": "told", **options})


def context_of(task_context: MakeContext, name: str, **more: Any) -> Any:
    with DAG("dag", schedule=None) as dag:
        operator = BaseOperator(task_id=name)
    return {**task_context(operator), "dag": dag, "run_id": "run", **more}


def test_the_message_names_the_try_and_the_class_of_its_error(told: LeasedQueue, task_context: MakeContext) -> None:
    notifier()(context_of(task_context, "load", exception=ValueError("the text of a payload")))
    (message,) = told.admin.peek(2)
    unknown = dict.fromkeys(("state", "reason", "log_url"))
    names = {"dag_id": "dag", "run_id": "run", "task_id": "load", "map_index": -1, "try_number": 1}
    assert message.payload == {**names, **unknown, "error": "ValueError"}
    assert message.headers["airflow-task-id"] == "load"


def test_one_notifier_serves_many_tasks_and_changes_neither_itself_nor_their_contexts(
    told: LeasedQueue, task_context: MakeContext
) -> None:
    made = notifier(payload={"failed": "{{ ti.task_id }}"}, headers={"of": "{{ ti.task_id }}"})
    for name in ("a", "b"):
        context = context_of(task_context, name)
        before = set(context)
        made(context)
        assert set(context) == before
    assert [(each.payload, each.headers["of"]) for each in told.admin.peek(3)] == [({"failed": n}, n) for n in "ab"]


def test_a_key_is_rendered_and_drops_what_was_told_before(told: LeasedQueue, task_context: MakeContext) -> None:
    made = notifier(dedup_key="{{ ti.task_id }}")
    for name in ("a", "b", "a"):
        made(context_of(task_context, name))
    assert [each.payload["task_id"] for each in told.admin.peek(9)] == ["a", "b"]  # type: ignore[call-overload,index]


def test_a_notification_has_a_group_a_priority_and_a_publication_and_an_empty_text_is_none(
    told: LeasedQueue, task_context: MakeContext
) -> None:
    told.admin.configure(groups="fair")
    given = {"group": "{{ ti.task_id if ti else '' }}", "publication": "{{ run_id if ti else '' }}"}
    made = notifier(priority=7, **given)
    made(context_of(task_context, "load"))
    made({"dag": DAG("dag", schedule=None), "run_id": "run", "ti": None})
    found = sorted((each.group, each.priority, each.publication) for each in told.admin.peek(9))
    assert found == [("", "7", ""), ("load", "7", "run")]
    assert told.publication("run").waiting == 1


def test_what_a_discipline_lacks_is_refused_and_headers_are_left_out(
    connection: str, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch, secured_url: str
) -> None:
    uri = secured_url.replace("redis://", f"redis-queue://airflow:{CANARY}@")
    monkeypatch.setenv("AIRFLOW_CONN_REDIS_QUEUE_DEFAULT", f"{uri}?discipline=streams")
    with pytest.raises(Unsupported, match="dedup"):
        notifier(redis_queue="stream", dedup_key="a")(context_of(task_context, "a"))
    with pytest.raises(Unsupported, match="groups"):
        notifier(redis_queue="stream", priority=0)(context_of(task_context, "a"))
    with pytest.raises(ConfigurationError, match="queue_config"):
        notifier(redis_queue="stream", queue_config=LeasedConfig())(context_of(task_context, "a"))
    notifier(redis_queue="stream", payload={"plain": 1})(context_of(task_context, "a"))


def test_invalid_arguments_are_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(ConfigurationError, match="redis_queue"):
        notifier(redis_queue="")
    with pytest.raises(ConfigurationError, match="LeasedConfig"):
        notifier(queue_config={"dedup": True})


def test_the_callback_of_a_dag_names_the_run_if_airflow_names_no_task(told: LeasedQueue) -> None:
    with DAG("dag", schedule=None) as dag:
        notifier()({"dag": dag, "run_id": "run", "reason": "task_failure"})
    (message,) = told.admin.peek(1)
    payload: Any = message.payload
    assert (payload["dag_id"], payload["run_id"], payload["reason"]) == ("dag", "run", "task_failure")
    assert {name for name, value in payload.items() if value is not None} == {"dag_id", "run_id", "reason"}
    assert message.headers == {"airflow-dag-id": "dag", "airflow-run-id": "run"}


@pytest.mark.slow
@pytest.mark.usefixtures("airflow_database")
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern")
def test_airflow_calls_it_for_success_retry_and_failure(told: LeasedQueue) -> None:
    load("notifying").test()
    found: Any = [(each.headers["of"], each.headers["callback"], each.payload) for each in told.admin.peek(9)]
    assert sorted(each[:2] for each in found) == [("bad", "failure"), ("bad", "retry"), ("good", "success")]
    tries = {each[1]: (each[2]["try_number"], each[2]["error"], each[2]["state"]) for each in found}
    error = "PayloadError" if CALLBACKS_GET_EXCEPTIONS else None
    assert tries["retry"][:2] == (1, error)
    assert tries["failure"] == (2, error, "failed")
    assert tries["success"] == (1, None, "success")
    assert all("/runs/" in each[2]["log_url"] for each in found)


@pytest.mark.slow
@pytest.mark.usefixtures("airflow_database")
@pytest.mark.skipif(BELOW_33, reason="a trigger that fails resumes the task on a worker")
def test_the_dag_processor_calls_it_for_a_task_that_failed_in_its_trigger(told: LeasedQueue) -> None:
    process(*requests_of_a_task_that_ended_in_its_trigger(TaskFailedEvent()))
    (message,) = told.admin.peek(2)
    payload: Any = message.payload
    assert (payload["dag_id"], payload["task_id"]) == ("notifying_from_the_trigger", "wait")
    assert payload["log_url"].endswith("/tasks/wait?try_number=1")
    assert message.headers["of"] == "wait"


@pytest.mark.slow
@pytest.mark.usefixtures("airflow_database")
def test_the_dag_processor_calls_nothing_for_a_success_in_a_trigger_so_the_sensor_avoids_it(told: LeasedQueue) -> None:
    process(*requests_of_a_task_that_ended_in_its_trigger(TaskSuccessEvent()))
    assert told.admin.peek(1) == []
    sensor = load("notifying_from_the_trigger").get_task("wait")
    assert sensor.start_trigger_args.trigger_kwargs["end_task"] is False


def requests_of_a_task_that_ended_in_its_trigger(event: BaseTaskEndEvent) -> list[Any]:
    """Defer the task in the metadata database, let its trigger end it, and return what Airflow asks a DAG processor."""
    from airflow.models.callback import DagProcessorCallback
    from airflow.models.trigger import handle_event_submit
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        run = scheduled("notifying_from_the_trigger", session)
        waiting = run.get_task_instance("wait", session=session)
        assert waiting is not None
        waiting.try_number = 1
        handle_event_submit(event, task_instance=waiting, session=session)
        assert waiting.state == event.task_instance_state
        session.flush()
        found = [row.get_callback_request() for row in session.scalars(select(DagProcessorCallback))]
        session.rollback()
    return found


def process(*requests: Any) -> None:
    """Do with these requests what the process of a DAG file does."""
    import structlog
    from airflow.dag_processing.dagbag import DagBag
    from airflow.dag_processing.processor import _execute_callbacks

    bag = DagBag(DAGS, bundle_path=DAGS, bundle_name="tests")
    _execute_callbacks(bag, [*requests], structlog.get_logger())


def test_the_triggerer_awaits_it_for_a_missed_deadline(told: LeasedQueue) -> None:
    from airflow.triggers.callback import CallbackTrigger

    options = {"redis_queue": "told", "payload": "{{ dag_run.dag_id }} is late"}
    given = AsyncCallback(RedisQueueNotifier, kwargs=options)
    run = {"dag_id": "nightly", "dag_run_id": "today"}
    context = {"dag_run": run, "deadline": {"id": "7", "deadline_time": "2026-01-01T00:00:00Z"}}

    async def states(**kwargs: Any) -> list[str]:
        trigger = CallbackTrigger(given.path, {**kwargs, "context": context})
        return [event.payload["state"] async for event in trigger.run()]

    assert asyncio.run(states(**options)) == ["running", "success"]
    assert asyncio.run(states(redis_queue="told")) == ["running", "success"]
    plain, detailed = told.admin.peek(3)
    assert plain.payload == "nightly is late"
    assert (detailed.payload["dag_id"], detailed.payload["run_id"]) == ("nightly", "today")  # type: ignore[call-overload,index]
    assert detailed.headers == {"airflow-dag-id": "nightly", "airflow-run-id": "today"}


def test_a_dag_with_it_as_the_callback_of_a_deadline_can_be_stored() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    late = AsyncCallback(RedisQueueNotifier, kwargs={"redis_queue": "told"})
    deadline = DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(minutes=30), late)
    with DAG("late", schedule=None, deadline=deadline) as dag:
        BaseOperator(task_id="a")
    assert "RedisQueueNotifier" in str(DagSerialization.to_dict(dag))
