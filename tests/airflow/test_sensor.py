from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, TaskDeferred

from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import ConfigurationError, RedisMessageQueueError
from tests.airflow.conftest import QUEUE, MakeContext
from tests.airflow.dags.waiting import MODES
from tests.airflow.runs import load, states, xcom
from tests.faults.patience import PATIENCE_S


def sensor(**options: Any) -> RedisQueueSensor:
    return RedisQueueSensor(task_id="wait", redis_queue=QUEUE, **{"poke_interval": 0.05, **options})


def execute(operator: RedisQueueSensor, context: MakeContext) -> Any:
    return operator.execute(context(operator))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_sensor_succeeds_when_there_is_enough_and_reports_the_same_in_every_mode(
    mode: str, connection: str, queue: Any, airflow_database: None
) -> None:
    dag = load(f"waiting_{mode}")
    queue.publish("one")
    rest = threading.Timer(2, queue.publish_many, (["two", "three"],))
    rest.start()
    run = dag.test()
    rest.join()
    assert states(run) == {"wait": "success", "seen": "success"}
    report = xcom(run, "seen")
    assert set(report) == {"queue", "ready", "oldest_age"}
    assert (report["queue"], report["ready"]) == (QUEUE, 3)
    assert report["oldest_age"] > 0
    assert queue.stats().ready == 3, "a sensor holds nothing"


def test_an_empty_queue_defers_with_the_sensors_timeout_and_a_plain_trigger(
    connection: str, task_context: MakeContext
) -> None:
    operator = sensor(deferrable=True, min_messages=5, max_age=timedelta(minutes=1), timeout=120)
    with pytest.raises(TaskDeferred) as deferred:
        execute(operator, task_context)
    assert deferred.value.timeout == timedelta(seconds=120)
    assert deferred.value.method_name == "execute_complete"
    _, arguments = deferred.value.trigger.serialize()
    assert arguments == {
        "redis_queue": QUEUE,
        "min_messages": 5,
        "max_age": 60.0,
        "redis_queue_conn_id": "redis_queue_default",
        "end_task": True,
        "max_messages": None,
        "groups": None,
    }


def test_an_old_message_is_enough(connection: str, queue: Any, task_context: MakeContext) -> None:
    queue.publish("one")
    assert execute(sensor(min_messages=100, max_age=0.3, timeout=PATIENCE_S), task_context)["ready"] == 1


def test_a_timeout_fails_and_soft_fail_makes_it_a_skip(connection: str, task_context: MakeContext) -> None:
    with pytest.raises(AirflowSensorTimeout):
        execute(sensor(timeout=0.2), task_context)
    with pytest.raises(AirflowSkipException):
        execute(sensor(timeout=0.2, soft_fail=True), task_context)


def test_a_timeout_while_deferred_fails_and_soft_fail_makes_it_a_skip(
    connection: str, task_context: MakeContext
) -> None:
    operator, soft = sensor(deferrable=True), sensor(deferrable=True, soft_fail=True)
    with pytest.raises(AirflowSensorTimeout):
        resume_after_timeout(operator, task_context)
    with pytest.raises(AirflowSkipException):
        resume_after_timeout(soft, task_context)


def resume_after_timeout(operator: RedisQueueSensor, context: MakeContext) -> None:
    # the event that Airflow's triggerer passes to a task whose trigger did not fire in time
    failure = {"error": "Trigger timeout", "traceback": None}
    operator.resume_execution("__fail__", failure, context(operator))


@pytest.mark.parametrize("soft_fail", [True, False])
def test_a_trigger_that_could_not_wait_fails_the_task_even_with_soft_fail(
    soft_fail: Any, connection: str, task_context: MakeContext
) -> None:
    operator = sensor(deferrable=True, soft_fail=soft_fail)
    event = {"event": {"status": "error", "message": "Redis refused the password"}}
    with pytest.raises(RedisMessageQueueError, match="refused the password"):
        operator.resume_execution("execute_complete", event, task_context(operator))


def test_a_threshold_that_can_never_be_met_is_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(ConfigurationError, match="min_messages"):
        sensor(min_messages=0)
    with pytest.raises(ConfigurationError, match="max_age"):
        sensor(max_age=timedelta(0))
