"""The metrics that each operator emits to Airflow: counters with the queue and the operator as tags."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from rmq_airflow import metrics
from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.drain import TooManyFailures
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.redrive import RedisQueueRedriveOperator
from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeasedConfig
from tests.airflow.conftest import CANARY, QUEUE, MakeContext
from tests.airflow.drivers import DRIVER

pytestmark = pytest.mark.usefixtures("connection")


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
    """Record name, count and operator of each metric; check the tags."""
    told: list[tuple[str, int, str]] = []

    def incr(name: str, count: int = 1, *, tags: dict[str, Any]) -> None:
        assert tags["queue"] == QUEUE
        assert set(tags) == {"queue", "operator"}
        told.append((name, count, tags["operator"]))

    monkeypatch.setattr(metrics.Stats, "incr", incr)
    return told


def fail_on_a(message: Any) -> None:
    if message.payload == "a":
        raise ValueError(CANARY)


def test_publishing_counts_accepted_and_refused_messages(heard: Any, queue: Any, task_context: MakeContext) -> None:
    task = RedisQueuePublishOperator(
        task_id="t", redis_queue=QUEUE, messages=["a", "b", "a"], queue_config=LeasedConfig(dedup=True)
    )
    task.execute(task_context(task))
    name = "RedisQueuePublishOperator"
    assert heard == [("rmq.published", 2, name), ("rmq.duplicates", 1, name)]


def test_consuming_emits_its_report_even_when_it_fails(heard: Any, queue: Any, task_context: MakeContext) -> None:
    queue.publish_many("ba")
    task = RedisQueueConsumeOperator(task_id="t", redis_queue=QUEUE, on_message=fail_on_a, max_failures=0)
    with pytest.raises(TooManyFailures):
        task.execute(task_context(task))
    assert {(name, count) for name, count, _ in heard} == {("rmq.claimed", 2), ("rmq.acked", 1), ("rmq.failed", 1)}


def test_a_decorated_task_counts_the_outcomes_of_its_batch(heard: Any, queue: Any, task_context: MakeContext) -> None:
    def work(messages: Any) -> None:
        messages.release(messages[0])
        messages.nack(messages[1])

    queue.publish_many("abc")
    task = redis_queue_task(work, queue=QUEUE)().operator
    task.execute(task_context(task))
    told = {("rmq.claimed", 3), ("rmq.acked", 1), ("rmq.failed", 1), ("rmq.released", 1)}
    assert {(name, count) for name, count, _ in heard} == told


def test_hand_overs_settles_and_redrives_are_counted(heard: Any, queue: Any, task_context: MakeContext) -> None:
    queue.publish_many("ab")
    wait = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, hand_over=True)
    handed = wait.execute(task_context(wait))
    settle = RedisQueueSettleOperator(
        task_id="settle", hand_over=handed, action="nack", queue_config=LeasedConfig(max_deliveries=1)
    )
    settle.execute(task_context(settle))
    settle.execute(task_context(settle))
    redrive = RedisQueueRedriveOperator(task_id="redrive", redis_queue=QUEUE)
    redrive.execute(task_context(redrive))
    assert heard == [
        ("rmq.claimed", 2, "RedisQueueSensor"),
        ("rmq.failed", 2, "RedisQueueSettleOperator"),
        ("rmq.left_alone", 1, "RedisQueueSettleOperator"),
        ("rmq.redriven", 2, "RedisQueueRedriveOperator"),
    ]


@pytest.mark.usefixtures("spark_submit")
@pytest.mark.parametrize(("behaviour", "told"), [("adopt_and_ack", "rmq.acked"), ("adopt_and_fail", "rmq.failed_runs")])
def test_a_spark_job_counts_what_it_claimed_and_how_it_ended(
    behaviour: str, told: str, heard: Any, queue: Any, task_context: MakeContext, tmp_path: Any
) -> None:
    queue.publish("a")
    arguments = [behaviour, str(tmp_path / "marker")]
    task = RedisQueueSparkSubmitOperator(
        task_id="t", redis_queue=QUEUE, application=str(DRIVER), application_args=arguments
    )
    if behaviour == "adopt_and_fail":
        with pytest.raises(AirflowException):
            task.execute(task_context(task))
    else:
        task.execute(task_context(task))
    name = "RedisQueueSparkSubmitOperator"
    assert heard == [("rmq.claimed", 1, name), (told, 1, name)]
