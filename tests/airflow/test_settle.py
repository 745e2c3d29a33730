"""Settling by a later task: a hand-over that was never adopted is settled, a lease of a running task is not."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import ConfigurationError, LeaseLost
from tests.airflow.conftest import QUEUE, MakeContext

WORKER = "airflow:dag/run/work/-1/{}"


def hand_over(context: MakeContext, **options: Any) -> Any:
    """Return what a sensor leaves in XCom."""
    sensor = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, hand_over=True, poke_interval=0.05, **options)
    return sensor.execute(context(sensor))


def settle(context: MakeContext, handed: Any, **options: Any) -> Any:
    operator = RedisQueueSettleOperator(task_id="settle", hand_over=handed, **options)
    return operator.execute(context(operator))


@pytest.mark.parametrize(
    ("action", "left"),
    [("ack", []), ("nack", [("a", 1), ("b", 1)]), ("release", [("a", 0), ("b", 0)])],
)
def test_a_lease_without_an_adoption_is_settled(
    action: Any, left: Any, connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("ab")
    report = settle(task_context, hand_over(task_context), action=action)
    assert (report["settled"], report["left_alone"]) == (2, None)
    assert sorted((message.payload, message.deliveries) for message in queue.admin.peek(5)) == left
    assert queue.stats().leases == 0


def test_a_late_settle_does_not_affect_a_running_retry(
    connection: str, queue: Any, task_context: MakeContext, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.publish_many("ab")
    handed = hand_over(task_context)
    queue.adopt(handed["lease_id"], owner=WORKER.format(1), if_owner=handed["owner"])
    retry = queue.adopt(handed["lease_id"], owner=WORKER.format(2), if_owner=WORKER.format(1))
    with queue.hold(retry):
        for action in ("nack", "release", "ack"):
            report = settle(task_context, handed, action=action)
            assert report["settled"] == 0
            assert WORKER.format(2) in report["left_alone"]
        retry.check()
        assert queue.ack(retry, list(queue.messages(retry))[:1]).settled == 1, "the retry goes on under its own token"
        assert queue.ack(retry).settled == 1
    assert "left_alone" in capsys.readouterr().out
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_a_settle_of_an_earlier_try_of_the_sensor_does_nothing_to_its_retry(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish("a")
    first = hand_over(task_context)
    sensor = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, hand_over=True)
    second = sensor.execute(task_context(sensor, try_number=2))
    assert settle(task_context, first)["settled"] == 0
    assert settle(task_context, second, action="ack")["settled"] == 1


def test_a_lease_that_no_longer_exists_is_left_alone(connection: str, queue: Any, task_context: MakeContext) -> None:
    queue.publish("a")
    handed = hand_over(task_context)
    settle(task_context, handed, action="ack")
    assert "settled" in settle(task_context, handed)["left_alone"]
    queue.publish("b")
    again = {**handed, "lease_id": "another"}
    assert "lost" in settle(task_context, again)["left_alone"]
    assert queue.backlog().ready == 1


def test_the_settle_fences_off_the_former_holder(connection: str, queue: Any, task_context: MakeContext) -> None:
    queue.publish("a")
    handed = hand_over(task_context)
    stale = queue.adopt(handed["lease_id"], owner=handed["owner"], if_owner=handed["owner"])
    settle(task_context, handed, action="release")
    with pytest.raises(LeaseLost):
        queue.ack(stale)


@pytest.mark.parametrize("wrong", ["a lease", {"queue": QUEUE}, ["lease"]])
def test_a_value_that_is_not_a_hand_over_is_refused(wrong: Any, connection: str, task_context: MakeContext) -> None:
    with pytest.raises(ConfigurationError, match="hand_over"):
        settle(task_context, wrong)
