"""Tasks on a typed queue: payloads that publish refuses, and stored payloads that do not fit the type."""

from __future__ import annotations

import copy
from typing import Any

import pydantic
import pytest
from airflow.sdk import DAG

from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.drain import TooManyFailures
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeasedConfig, LeasedQueue, PayloadError, Typed
from tests.airflow.conftest import QUEUE, MakeContext


class Order(pydantic.BaseModel):
    id: int


ORDERS = LeasedConfig(codec=Typed(Order))
BAD = {"id": "seven"}
GOOD = [{"id": 1}, {"id": 2}]
WHY = "InvalidPayload: payload['id']: Input should be a valid integer"


def run(context: MakeContext, operator: Any) -> Any:
    """Run a task as Airflow does, which copies its operator for each try."""
    made = copy.deepcopy(operator)
    return made.execute(context(made))


def consumer(**options: Any) -> RedisQueueConsumeOperator:
    return RedisQueueConsumeOperator(task_id="consume", redis_queue=QUEUE, queue_config=ORDERS, **options)


def function(calls: list[list[int]], **options: Any) -> Any:
    """Return a task of `@task.redis_queue` that notes the ids of each call."""

    def work(messages: Any) -> int:
        calls.append([order.id for order in messages.payloads])
        return len(messages)

    where = {} if "hand_over" in options else {"queue": QUEUE}
    with DAG("dag", schedule=None):
        return redis_queue_task(work, task_id="work", queue_config=ORDERS, **where, **options)().operator


@pytest.mark.parametrize("options", [{}, {"once": True}], ids=str)
def test_a_value_that_does_not_fit_fails_the_publishing_task_which_names_its_part(
    options: dict[str, Any], connection: str, queue: LeasedQueue, task_context: MakeContext
) -> None:
    made = RedisQueuePublishOperator(
        task_id="publish", redis_queue=QUEUE, messages=[Order(id=1), BAD], queue_config=ORDERS, asset=None, **options
    )
    with pytest.raises(PayloadError, match=r"payload\['id'\]: Input should be a valid integer.* Typed\(Order\)"):
        run(task_context, made)
    assert queue.stats().ready == 0


@pytest.mark.parametrize("how", ["on_message", "on_batch"])
def test_what_does_not_fit_becomes_a_dead_letter_with_its_reason_and_the_others_are_worked_on(
    how: str, connection: str, queue: LeasedQueue, task_context: MakeContext
) -> None:
    seen: list[int] = []
    works: dict[str, Any] = {
        "on_message": lambda message: seen.append(message.payload.id),
        "on_batch": lambda batch: seen.extend(order.id for order in batch.payloads),
    }
    queue.publish_many([GOOD[0], BAD, GOOD[1], BAD, BAD])
    report = run(task_context, consumer(batch_size=2, **{how: works[how]}))
    assert seen == [1, 2]
    counts = {"claimed": 5, "acked": 2, "failed": 3, "dead": 3, "isolated": 0}
    assert report == {"queue": QUEUE, "ended": "empty", **counts, "settled_before": False}
    assert [letter.history[-1].reason[: len(WHY)] for letter in queue.admin.dead_letters(9)] == [WHY] * 3


@pytest.mark.parametrize("how", ["on_message", "on_batch"])
def test_a_function_is_not_called_for_a_claim_of_which_nothing_fits(
    how: str, connection: str, queue: LeasedQueue, task_context: MakeContext
) -> None:
    works: dict[str, Any] = {how: lambda *_: pytest.fail("called")}
    queue.publish_many([BAD] * 3)
    report = run(task_context, consumer(batch_size=2, max_messages=3, **works))
    assert (report["ended"], report["claimed"], report["dead"]) == ("max_messages", 3, 3)
    queue.publish_many([BAD] * 3)
    with pytest.raises(TooManyFailures, match="2 messages of work failed"):
        run(task_context, consumer(batch_size=2, max_failures=1, **works))
    assert (queue.stats().ready, queue.stats().leased) == (1, 0)


@pytest.mark.parametrize(("max_batches", "calls"), [(1, [[1]]), (None, [[1], [2]])])
def test_a_decorated_function_gets_the_next_batch_that_has_something_that_fits(
    max_batches: int | None,
    calls: list[list[int]],
    connection: str,
    queue: LeasedQueue,
    task_context: MakeContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found: list[list[int]] = []
    queue.publish_many([BAD, GOOD[0], BAD, GOOD[1]])
    run(task_context, function(found, max_messages=1, max_batches=max_batches))
    assert found == calls
    assert queue.stats()[:5] == (4 - 2 * len(calls), 0, 0, 0, len(calls))
    assert "The codec refuses 1 of 1 messages" in caplog.text


@pytest.mark.parametrize("adopts", [False, True])
def test_where_nothing_fits_a_decorated_function_gets_no_messages_as_from_an_empty_queue(
    adopts: bool, connection: str, queue: LeasedQueue, task_context: MakeContext
) -> None:
    found: list[list[int]] = []
    queue.publish_many([BAD] * 3)
    sensor = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, hand_over=True)
    options: dict[str, Any] = {"hand_over": run(task_context, sensor)} if adopts else {"max_messages": 2}
    assert run(task_context, function(found, **options)) == 0
    assert found == [[]]
    assert queue.stats()[:5] == (0, 0, 0, 0, 3)
