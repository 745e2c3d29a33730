"""What a publish emits besides its messages: the event of the queue's asset, and its trace context."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.sdk import AssetAlias
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_core import ConfigurationError, LeasedConfig, QueueFull
from tests.airflow.conftest import QUEUE, MakeContext

ALIAS = AssetAlias(name=f"rmq:redis_queue_default/{QUEUE}")


def publish(context: Any, messages: Any, *, try_number: int = 1, **options: Any) -> Any:
    """Run a publish and return its context with the events it emitted."""
    operator = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=messages, **options)
    made = context(operator, try_number=try_number)
    operator.execute(made)
    return made


def alias_events(context: Any, alias: AssetAlias) -> list[Any]:
    return list(context["outlet_events"][alias].asset_alias_events)


def test_the_asset_of_the_queue_gets_an_event_through_an_alias_known_when_the_dag_is_parsed(
    connection: str, secured_url: str, task_context: MakeContext
) -> None:
    (event,) = alias_events(publish(task_context, ["a", "b"]), ALIAS)
    place = urlsplit(secured_url)
    assert event.dest_asset_key.uri == f"rmq://{place.hostname}:{place.port}/{place.path.strip('/') or 0}/{QUEUE}"
    assert event.extra == {"accepted": 2}
    assert RedisQueuePublishOperator(task_id="t", redis_queue=QUEUE, messages=["a"]).outlets == [ALIAS]


def test_a_retry_emits_the_event_of_what_a_killed_try_had_published(connection: str, task_context: MakeContext) -> None:
    config = LeasedConfig(dedup=True)
    publish(task_context, ["a"], queue_config=config)
    (event,) = alias_events(publish(task_context, ["a"], try_number=2, queue_config=config), ALIAS)
    assert event.extra == {"accepted": 0}
    assert alias_events(publish(task_context, [], try_number=2, queue_config=config), ALIAS) == []


def test_a_custom_alias_is_resolved_too(connection: str, task_context: MakeContext) -> None:
    mine = AssetAlias(name="mine")
    assert len(alias_events(publish(task_context, ["a"], asset=mine), mine)) == 1


@pytest.mark.parametrize("queue", ["{{ ds }}", "{% if ds %}a{% endif %}"])
def test_an_operator_without_an_asset_or_with_a_templated_queue_has_no_outlet(queue: str) -> None:
    assert RedisQueuePublishOperator(task_id="t", redis_queue=QUEUE, messages=["a"], asset=None).outlets == []
    assert RedisQueuePublishOperator(task_id="t", redis_queue=queue, messages=["a"]).outlets == []


def test_messages_carry_the_trace_context_of_their_publisher(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    span = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1)))
    with trace.use_span(span):
        publish(task_context, ["a"])
    publish(task_context, ["b"])
    first, second = queue.admin.peek(2)
    assert first.headers["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"
    assert "traceparent" not in second.headers


def test_a_full_queue_fails_the_task_and_the_log_reports_how_many_were_stored(
    connection: str, queue: Any, task_context: MakeContext, capsys: pytest.CaptureFixture[str]
) -> None:
    config = LeasedConfig(max_ready=2000)
    with pytest.raises(QueueFull):
        publish(task_context, lambda: map(str, range(5000)), queue_config=config)
    assert queue.backlog().ready == 2000
    assert "'accepted': 2000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"dedup_key": "id"}, "dedup_key"),
        ({"queue_config": {"dedup": True}}, "LeasedConfig"),
        ({"redis_queue": ""}, "redis_queue"),
    ],
)
def test_invalid_arguments_are_refused_when_the_dag_is_parsed(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RedisQueuePublishOperator(task_id="t", messages=["a"], **{"redis_queue": QUEUE, **options})
