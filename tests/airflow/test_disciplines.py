"""Connections that name a discipline: most operators work with any of them, those that need a named lease refuse."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.providers.common.compat.sdk import AirflowException, TaskDeferred

from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.get_provider_info import DISCIPLINES
from rmq_airflow.operators.check import RedisQueueCheckOperator
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.redrive import RedisQueueRedriveOperator
from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_airflow.triggers.depth import RedisQueueDepthTrigger
from rmq_airflow.triggers.sensor import RedisQueueTrigger
from rmq_core import ConfigurationError, LeasedConfig, Unsupported, WorkQueue, open_queue
from rmq_core.orchestrate import LimitBounds, StatsLimits
from tests.airflow.conftest import QUEUE, MakeContext

PAYLOADS: dict[str, list[Any]] = {"rotation": ["a", "b"], "streams": [{"n": 1}, {"n": 2}]}
OTHERS = [name for name in DISCIPLINES if name != "leased"]
HANDED = {"queue": QUEUE, "lease_id": "l", "owner": "o", "claimed": 1}

Connect = Callable[[str], str]


@pytest.fixture
def connect(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Create a connection of a discipline; return its id."""

    def make(discipline: str) -> str:
        place = urlsplit(redis_url)
        extra = {"discipline": discipline, "db": int(place.path.strip("/") or 0)}
        fields = {"conn_type": "redis_queue", "host": place.hostname, "port": place.port, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_KEPT", json.dumps(fields))
        return "kept"

    return make


def publish(conn_id: str, discipline: str, **options: Any) -> RedisQueuePublishOperator:
    messages = PAYLOADS.get(discipline, ["a", "b"])
    given = {"messages": messages, "asset": None, "redis_queue_conn_id": conn_id, **options}
    return RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, **given)


def sensor(conn_id: str, **options: Any) -> RedisQueueSensor:
    given = {"redis_queue_conn_id": conn_id, "poke_interval": 0.05, "timeout": 60, **options}
    return RedisQueueSensor(task_id="wait", redis_queue=QUEUE, **given)


def run(task: Any, context: MakeContext) -> Any:
    return task.execute(context(task))


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_task_publishes_to_a_queue_of_any_discipline_and_a_sensor_sees_it(
    discipline: str, connect: Connect, redis_url: str, task_context: MakeContext
) -> None:
    conn_id = connect(discipline)
    assert run(publish(conn_id, discipline), task_context)["accepted"] == 2
    assert run(sensor(conn_id, min_messages=2), task_context)["ready"] == 2
    queue = open_queue(redis_url, QUEUE, discipline)
    try:
        assert [message.payload for message in queue.admin.peek(2)] == PAYLOADS.get(discipline, ["a", "b"])
        with_headers = queue.admin.peek()[0].headers.get("airflow-dag-id")
        assert with_headers == ("dag" if queue.capabilities.headers else None)
    finally:
        queue.close()


@pytest.mark.parametrize("discipline", OTHERS)
def test_a_deferrable_sensor_polls_a_discipline_without_notifications(
    discipline: str, connect: Connect, task_context: MakeContext
) -> None:
    conn_id = connect(discipline)
    made = sensor(conn_id, min_messages=2, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        run(made, task_context)
    path, arguments = deferred.value.trigger.serialize()
    assert path.endswith(".RedisQueueDepthTrigger")
    run(publish(conn_id, discipline), task_context)

    async def fire() -> Any:
        return (await anext(RedisQueueDepthTrigger(**arguments).run())).payload

    seen = made.execute_complete(task_context(made), asyncio.run(asyncio.wait_for(fire(), 60)))
    assert seen["ready"] == 2


@pytest.mark.parametrize("discipline", OTHERS)
def test_max_age_is_supported_where_messages_have_an_age(
    discipline: str, connect: Connect, task_context: MakeContext
) -> None:
    conn_id = connect(discipline)
    run(publish(conn_id, discipline), task_context)
    made = sensor(conn_id, min_messages=9, max_age=0.1)
    if discipline == "rotation":
        with pytest.raises(Unsupported, match=r"'rotation'.*RedisQueueSensor with max_age"):
            run(made, task_context)
    else:
        assert run(made, task_context)["oldest_age"] >= 0.1


def work(messages: Any) -> int:
    return len(messages)


NEEDING_LEASES: dict[str, Callable[[str], Any]] = {
    "RedisQueueConsumeOperator": lambda conn: RedisQueueConsumeOperator(
        task_id="t", redis_queue=QUEUE, on_message=print, redis_queue_conn_id=conn
    ),
    "@task.redis_queue": lambda conn: redis_queue_task(work, queue=QUEUE, redis_queue_conn_id=conn)().operator,
    "RedisQueueSettleOperator": lambda conn: RedisQueueSettleOperator(
        task_id="t", hand_over=HANDED, redis_queue_conn_id=conn
    ),
    "RedisQueueSparkSubmitOperator": lambda conn: RedisQueueSparkSubmitOperator(
        task_id="t", redis_queue=QUEUE, application="job.py", redis_queue_conn_id=conn
    ),
    "RedisQueueSensor with hand_over": lambda conn: sensor(conn, hand_over=True),
    "RedisQueueSensor with publication": lambda conn: sensor(conn, publication="report"),
}


@pytest.mark.usefixtures("spark_submit")
@pytest.mark.parametrize("component", NEEDING_LEASES)
@pytest.mark.parametrize("discipline", OTHERS)
def test_an_operator_that_needs_a_named_lease_refuses_and_names_operator_and_discipline(
    component: str, discipline: str, connect: Connect, task_context: MakeContext
) -> None:
    task = NEEDING_LEASES[component](connect(discipline))
    with pytest.raises(Unsupported) as refused:
        run(task, task_context)
    assert f"'{discipline}'" in str(refused.value)
    assert component in str(refused.value)
    assert "; use leased" in str(refused.value)


@pytest.mark.parametrize("discipline", OTHERS)
def test_a_publish_with_an_unsupported_option_is_refused_as_a_whole(
    discipline: str, connect: Connect, redis_url: str, task_context: MakeContext
) -> None:
    conn_id = connect(discipline)
    queue = open_queue(redis_url, QUEUE, discipline)
    asked: dict[str, tuple[str, Any]] = {
        "delay": ("delay", 5),
        "dedup_key": ("dedup", str),
        "headers": ("headers", {"a": "b"}),
        "group": ("groups", "a"),
        "priority": ("groups", 5),
        "publication": ("groups", "p"),
        "expires": ("groups", 5),
    }
    assert asked.keys() == inspect.signature(WorkQueue.publish_many).parameters.keys() - {"self", "payloads"}
    lacking = [keyword for keyword, (capability, _) in asked.items() if not getattr(queue.capabilities, capability)]
    for keyword in lacking:
        capability, value = asked[keyword]
        with pytest.raises(Unsupported, match=f"{capability}.*RedisQueuePublishOperator"):
            run(publish(conn_id, discipline, **{keyword: value}), task_context)
    assert queue.stats().ready == 0
    queue.close()
    assert lacking or discipline == "jobs"


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_limits_of_a_queue_of_any_discipline_are_checked(
    discipline: str, connect: Connect, task_context: MakeContext
) -> None:
    conn_id = connect(discipline)
    run(publish(conn_id, discipline), task_context)
    limits = StatsLimits(depth=LimitBounds(error=1))
    check = RedisQueueCheckOperator(task_id="t", redis_queue=QUEUE, limits=limits, redis_queue_conn_id=conn_id)
    with pytest.raises(AirflowException, match=r"depth is 2, above 1 \(error\)"):
        run(check, task_context)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_dead_letters_are_awaited_and_redriven_where_the_discipline_has_them(
    discipline: str, connect: Connect, redis_url: str, task_context: MakeContext
) -> None:
    conn_id = connect(discipline)
    redrive = RedisQueueRedriveOperator(task_id="t", redis_queue=QUEUE, redis_queue_conn_id=conn_id)
    queue = open_queue(redis_url, QUEUE, discipline)
    able = queue.capabilities.dead_letters
    queue.close()
    if able:
        assert run(redrive, task_context) == {"queue": QUEUE, "redriven": 0, "dead": 0}
        return
    with pytest.raises(Unsupported, match=r"dead_letters .needed by RedisQueueRedriveOperator"):
        run(redrive, task_context)
    with pytest.raises(Unsupported, match=r"dead_letters .needed by RedisQueueSensor"):
        run(sensor(conn_id, count="dead"), task_context)


def test_a_trigger_that_needs_notifications_names_the_disciplines_that_have_them(connect: Connect) -> None:
    async def fire() -> Any:
        return (await anext(RedisQueueTrigger(QUEUE, redis_queue_conn_id=connect("streams")).run())).payload

    event = asyncio.run(asyncio.wait_for(fire(), 60))
    assert event["status"] == "error"
    assert "'streams' has no notification that wakes a trigger; use leased" in event["message"]


def test_a_leased_config_for_another_discipline_is_refused(connect: Connect, task_context: MakeContext) -> None:
    task = publish(connect("reliable"), "reliable", queue_config=LeasedConfig(dedup=True))
    with pytest.raises(ConfigurationError, match="queue_config"):
        run(task, task_context)
