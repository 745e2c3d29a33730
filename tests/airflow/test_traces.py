"""A connection with the extra `traced`: spans of operators, sensors and triggers, linked from publisher to consumer."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from tests.airflow.conftest import QUEUE, MakeContext
from tests.tracing import Spans


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    made = Spans(monkeypatch)
    monkeypatch.setattr("rmq_airflow.metrics.tracer", made.provider.get_tracer("rmq"))
    return made


@pytest.fixture
def traced(connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of the tests, with spans."""
    name = "AIRFLOW_CONN_REDIS_QUEUE_DEFAULT"
    fields = json.loads(os.environ[name])
    fields["extra"] |= {"traced": True}
    monkeypatch.setenv(name, json.dumps(fields))


def run(operator: Any, context: MakeContext) -> Any:
    return operator.execute(context(operator))


@pytest.mark.usefixtures("traced")
def test_a_task_that_consumes_links_to_the_task_that_published(spans: Spans, task_context: MakeContext) -> None:
    run(RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=["secret", "b"]), task_context)
    consume = RedisQueueConsumeOperator(task_id="consume", redis_queue=QUEUE, on_batch=print)
    assert run(consume, task_context)["acked"] == 2
    (publish,), (claim, _), (ack,), (process,) = (
        spans.named(f"{verb} {QUEUE}") for verb in ("publish_many", "claim", "ack", "process")
    )
    assert spans.linked(claim) == spans.linked(process) == [publish.context.span_id] * 2
    assert spans.linked(ack) == [claim.context.span_id]
    assert "secret" not in "".join(span.to_json() for span in spans.ended)


@pytest.mark.usefixtures("traced")
def test_a_sensor_that_hands_its_lease_over_makes_spans_too(
    spans: Spans, task_context: MakeContext, queue: Any
) -> None:
    queue.publish("a")
    sensor = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, hand_over=True)
    handed = sensor.poke(task_context(sensor)).xcom_value
    run(RedisQueueSettleOperator(task_id="settle", hand_over=handed, action="ack"), task_context)
    (claim,), (adopt,), (ack,) = (spans.named(f"{verb} {QUEUE}") for verb in ("claim", "adopt", "ack"))
    assert claim.attributes["messaging.batch.message_count"] == 1
    assert spans.linked(ack) == [adopt.context.span_id]


@pytest.mark.usefixtures("traced")
async def test_the_queues_of_triggers_make_spans_too(spans: Spans, queue: Any) -> None:
    queue.publish("a")
    async with await RedisQueueHook().async_queue(QUEUE) as opened:
        await opened.ack(await opened.claim())
    assert [span.name for span in spans.ended] == [f"claim {QUEUE}", f"ack {QUEUE}"]


@pytest.mark.usefixtures("connection")
def test_without_the_extra_there_are_only_the_spans_of_the_work(spans: Spans, task_context: MakeContext) -> None:
    run(RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=["a"]), task_context)
    run(RedisQueueConsumeOperator(task_id="consume", redis_queue=QUEUE, on_batch=print), task_context)
    assert [span.name for span in spans.ended] == [f"process {QUEUE}"]


@pytest.mark.usefixtures("traced")
def test_a_discipline_without_headers_is_not_traced(
    spans: Spans, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "AIRFLOW_CONN_REDIS_QUEUE_DEFAULT"
    fields = json.loads(os.environ[name])
    fields["extra"] |= {"discipline": "rotation"}
    monkeypatch.setenv(name, json.dumps(fields))
    run(RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=["a"]), task_context)
    assert spans.ended == []
