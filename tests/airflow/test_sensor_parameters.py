"""Parameters of the sensor besides the threshold: limits, dead letters, depth, hand-over, waiting in a trigger."""

from __future__ import annotations

import asyncio
import pkgutil
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_airflow.triggers.depth import RedisQueueDepthTrigger
from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, RedisMessageQueueError
from tests.airflow.conftest import QUEUE, MakeContext
from tests.faults.patience import PATIENCE_S

OWNER = "airflow:dag/run/wait/-1/{}"
LEASE = "dag/run/wait/-1"
FIRED = {"status": "success", "report": {"queue": QUEUE, "ready": 9, "oldest_age": 1.0}}


def sensor(**options: Any) -> RedisQueueSensor:
    common = {"redis_queue": QUEUE, "poke_interval": 0.05, "timeout": PATIENCE_S}
    return RedisQueueSensor(task_id="wait", **{**common, **options})


def wait(context: MakeContext, try_number: int = 1, **options: Any) -> Any:
    made = sensor(**options)
    return made.execute(context(made, try_number=try_number))


def fire(trigger: Any) -> Any:
    async def first() -> Any:
        async for event in trigger.run():
            return event.payload
        raise AssertionError

    return asyncio.run(asyncio.wait_for(first(), PATIENCE_S))


def kill(queue: Any, url: str, count: int) -> None:
    with LeasedQueue(url, QUEUE, LeasedConfig(max_deliveries=1)) as strict:
        for _ in range(count):
            strict.publish("dead")
            strict.nack(strict.claim())


def test_dead_letters_are_counted_when_the_parameter_requests_it(
    connection: str, secured_url: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish("alive")
    with pytest.raises(AirflowSensorTimeout):
        wait(task_context, count="dead", timeout=0.1)
    kill(queue, secured_url, 2)
    assert wait(task_context, count="dead", min_messages=2) == {"queue": QUEUE, "dead": 2, "oldest_age": None}


@pytest.mark.parametrize("count", ["dead", "depth"])
def test_the_deferrable_sensor_reports_counts_in_the_same_form(
    count: Any, connection: str, secured_url: str, queue: Any, task_context: MakeContext
) -> None:
    made = sensor(count=count, deferrable=True, max_messages=1, end_in_trigger=False)
    with pytest.raises(TaskDeferred) as deferred:
        made.execute(task_context(made))
    path, arguments = deferred.value.trigger.serialize()
    trigger = pkgutil.resolve_name(path)(**arguments)
    queue.publish("alive")
    kill(queue, secured_url, 2)
    event = fire(trigger)
    assert made.execute_complete(task_context(made), event) == {"queue": QUEUE, count: 1, "oldest_age": None}


def test_the_trigger_polls_until_there_are_enough(connection: str, secured_url: str, queue: Any) -> None:
    async def waiting() -> Any:
        trigger = RedisQueueDepthTrigger(QUEUE, "dead", 2, poll_interval=0.05)
        events = trigger.run()
        pending = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.3)
        assert not pending.done()
        await asyncio.to_thread(kill, queue, secured_url, 2)
        return (await asyncio.wait_for(pending, PATIENCE_S)).payload

    assert asyncio.run(waiting())["report"]["dead"] == 2


def test_a_trigger_that_cannot_log_in_reports_it(
    connection: str, secured_url: str, monkeypatch: pytest.MonkeyPatch, task_context: MakeContext
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_REDIS_QUEUE_DEFAULT")
    monkeypatch.setenv("AIRFLOW_CONN_REDIS_QUEUE_DEFAULT", secured_url.replace("redis://", "redis-queue://nobody:no@"))
    event = fire(RedisQueueDepthTrigger(QUEUE, "dead"))
    assert event["status"] == "error"
    made = sensor(count="dead", deferrable=True)
    with pytest.raises(RedisMessageQueueError):
        made.execute_complete(task_context(made), event)


def test_a_hand_over_claims_under_the_name_of_the_sensor_for_the_given_time(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("abc")
    handed = wait(task_context, hand_over=timedelta(hours=1), max_messages=2)
    assert (handed["lease_id"], handed["owner"], handed["claimed"]) == (LEASE, OWNER.format(1), 2)
    assert handed["ready"] == 2
    left = queue.lease_info(LEASE).deadline.timestamp() - time.time()
    assert 3500 < left < 3700
    assert queue.backlog().ready == 1


def test_a_retry_of_a_sensor_that_died_after_its_claim_hands_the_same_lease_over(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("abc")
    first = wait(task_context, hand_over=True, min_messages=3)
    second = wait(task_context, 2, hand_over=True, min_messages=3)
    assert (second["lease_id"], second["claimed"]) == (first["lease_id"], 3)
    assert second["owner"] == OWNER.format(2)


def test_a_sensor_that_is_cleared_after_its_batch_was_acked_waits_for_new_work(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish("a")
    queue.ack(queue.adopt(wait(task_context, hand_over=True)["lease_id"]))
    with pytest.raises(AirflowSensorTimeout):
        wait(task_context, 2, hand_over=True, timeout=0.1)
    queue.publish("b")
    third = wait(task_context, 3, hand_over=True)
    assert third["lease_id"] == f"{LEASE}#2"
    assert wait(task_context, 4, hand_over=True)["lease_id"] == f"{LEASE}#2"


def test_the_trigger_claims_nothing_and_the_worker_that_resumes_does(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    made = sensor(hand_over=True, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        made.execute(task_context(made))
    queue.publish_many("ab")
    event = fire(deferred.value.trigger)
    assert queue.stats().leases == 0
    assert made.execute_complete(task_context(made), event)["claimed"] == 2


def test_a_sensor_whose_messages_were_claimed_by_others_waits_for_the_rest_of_its_time(
    connection: str, task_context: MakeContext
) -> None:
    made = sensor(hand_over=True, deferrable=True, timeout=100)
    context = task_context(made)
    context["ti"].start_date = datetime.now(UTC) - timedelta(seconds=60)
    with pytest.raises(TaskDeferred) as deferred:
        made.execute_complete(context, FIRED)
    assert timedelta(seconds=38) < deferred.value.timeout <= timedelta(seconds=40)
    context["ti"].start_date = datetime.now(UTC) - timedelta(seconds=101)
    with pytest.raises(AirflowSensorTimeout):
        made.execute_complete(context, FIRED)


def test_start_from_trigger_needs_no_worker_before_the_trigger_fires() -> None:
    with DAG("d", schedule=None) as dag:
        made = sensor(deferrable=True, start_from_trigger=True, min_messages=5, max_age=60, timeout=120)
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("wait")
    assert stored.start_from_trigger is True
    arguments = stored.start_trigger_args
    assert arguments.next_method == "execute_complete"
    assert arguments.timeout == timedelta(seconds=120)
    assert made.start_trigger_args is not None
    trigger = pkgutil.resolve_name(made.start_trigger_args.trigger_cls)(**made.start_trigger_args.trigger_kwargs)
    assert trigger.serialize()[1]["min_messages"] == 5


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"redis_queue": ""}, "redis_queue"),
        ({"min_messages": 5, "max_messages": 4}, "max_messages"),
        ({"count": "lost"}, "count"),
        ({"count": "dead", "max_age": 5}, "max_age"),
        ({"count": "dead", "hand_over": True}, "hand_over"),
        ({"count": "depth", "groups": ["a"]}, "groups"),
        ({"groups": "a"}, "groups must be a list of names"),
        ({"groups": []}, "groups must be 1 to 100 names"),
        ({"start_from_trigger": True, "deferrable": True, "groups": ["{{ params['tenant'] }}"]}, "templates"),
        ({"hand_over": 0}, "hand_over"),
        ({"hand_over": timedelta(seconds=-1)}, "hand_over"),
        ({"start_from_trigger": True}, "deferrable"),
        ({"start_from_trigger": True, "deferrable": True, "redis_queue": "{{ ds }}"}, "templates"),
        ({"start_from_trigger": True, "deferrable": True, "redis_queue": "{% if ds %}a{% endif %}"}, "templates"),
    ],
)
def test_invalid_arguments_are_refused_when_the_dag_is_parsed(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        sensor(**options)
