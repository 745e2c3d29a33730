from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_core import ConfigurationError, LeasedConfig
from tests.airflow.conftest import QUEUE, MakeContext

DEDUPLICATED = LeasedConfig(dedup=True)


def publish(context: MakeContext, messages: Any, **options: Any) -> Any:
    operator = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=messages, **options)
    return operator.execute(context(operator))


def test_a_published_list_names_its_task_in_the_headers(connection: str, queue: Any, task_context: MakeContext) -> None:
    report = publish(task_context, [{"n": 1}, "two"], headers={"source": "test"})
    assert report == {"queue": QUEUE, "accepted": 2, "duplicates": 0, "dropped": 0}
    first, second = queue.admin.peek(2)
    assert (first.payload, second.payload) == ({"n": 1}, "two")
    assert first.headers["airflow-task-id"] == "publish"
    assert first.headers["airflow-run-id"] == "run"
    assert first.headers["source"] == "test"


def test_publishing_twice_with_deduplication_accepts_nothing_the_second_time(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    first = publish(task_context, [{"n": n} for n in range(50)], queue_config=DEDUPLICATED)
    second = publish(task_context, [{"n": n} for n in range(50)], queue_config=DEDUPLICATED)
    assert (first["accepted"], first["duplicates"]) == (50, 0)
    assert (second["accepted"], second["duplicates"]) == (0, 50)
    assert queue.backlog().ready == 50


def test_a_custom_deduplication_key_decides_what_is_a_duplicate(connection: str, task_context: MakeContext) -> None:
    report = publish(task_context, [{"day": 1, "v": 1}, {"day": 1, "v": 2}], dedup_key=lambda item: str(item["day"]))
    assert (report["accepted"], report["duplicates"]) == (1, 1)


def test_a_function_may_return_an_iterator_longer_than_a_chunk(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq_airflow.operators.publish.CHUNK", 100)
    report = publish(task_context, lambda: (str(n) for n in range(250)))
    assert report["accepted"] == 250
    assert [message.payload for message in queue.admin.peek(250)] == [str(n) for n in range(250)]


def test_a_function_receives_the_context_entries_that_it_names(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def messages(ti: Any) -> Iterator[str]:
        yield ti.run_id

    publish(task_context, messages)
    assert queue.admin.peek(1)[0].payload == "run"


def test_delayed_messages_are_not_ready_yet(connection: str, queue: Any, task_context: MakeContext) -> None:
    publish(task_context, ["later"], delay=60)
    assert (queue.stats().ready, queue.stats().delayed) == (0, 1)


@pytest.mark.parametrize("single", ["text", b"bytes", {"n": 1}, 7, None])
def test_a_single_message_is_refused_and_not_taken_for_a_list(
    single: Any, connection: str, queue: Any, task_context: MakeContext
) -> None:
    with pytest.raises(ConfigurationError, match="messages"):
        publish(task_context, single)
    assert queue.stats().ready == 0


def test_templates_in_payloads_are_rendered_and_the_result_is_not_displayed(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    operator = RedisQueuePublishOperator(task_id="t", redis_queue=QUEUE, messages=[{"run": "{{ ti.run_id }}"}])
    context = task_context(operator)
    operator.render_template_fields(context)
    assert str(operator.messages) == "<1 payloads>"
    operator.execute(context)
    assert queue.admin.peek(1)[0].payload == {"run": "run"}


@pytest.mark.parametrize(
    "nested", [["{{ ti.run_id }}"], {"a": {"b": "{% if true %}run{% endif %}"}}, ["plain", ["{{ ti.run_id }}"]]]
)
def test_a_template_is_found_at_any_depth(nested: Any, connection: str, queue: Any, task_context: MakeContext) -> None:
    operator = RedisQueuePublishOperator(task_id="t", redis_queue=QUEUE, messages=[{"plain": 1}, nested])
    context = task_context(operator)
    operator.render_template_fields(context)
    operator.execute(context)
    plain, rendered = queue.admin.peek(2)
    assert plain.payload == {"plain": 1}
    assert "run" in str(rendered.payload)
    assert b"{{" not in rendered.raw
    assert b"{%" not in rendered.raw


def test_a_long_list_without_templates_is_not_rendered_item_by_item(
    task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [{"n": n, "day": "2026-01-01"} for n in range(1000)]
    operator = RedisQueuePublishOperator(task_id="t", redis_queue=QUEUE, messages=messages)
    rendered: list[Any] = []
    render = operator.render_template
    monkeypatch.setattr(
        operator, "render_template", lambda value, *rest: rendered.append(value) or render(value, *rest)
    )
    operator.render_template_fields(task_context(operator))
    assert QUEUE in rendered
    assert messages not in rendered
    assert len(list(operator.messages)) == 1000  # type: ignore[arg-type]


def test_rendering_does_not_call_the_function(task_context: MakeContext) -> None:
    def messages() -> list[str]:
        raise AssertionError

    operator = RedisQueuePublishOperator(task_id="t", redis_queue=QUEUE, messages=messages)
    operator.render_template_fields(task_context(operator))
    assert operator.messages is messages


def test_tasks_publish_messages_that_expire(connection: str, queue: Any, task_context: MakeContext) -> None:
    queue.admin.configure(groups="fair")
    publish(task_context, ["short"], expires=timedelta(milliseconds=1))
    publish(task_context, ["long"], expires=60)
    time.sleep(0.002)
    assert queue.claim(max_messages=2).message.payload == "long"
    assert queue.stats().dead == 1


def test_tasks_publish_to_groups_that_a_function_or_a_template_names(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.admin.configure(groups="fair")
    publish(task_context, [{"tenant": "a", "n": n} for n in range(50)], group=lambda item: item["tenant"])
    publish(task_context, ["small"], group="b")
    publish(task_context, ["rerun"], group="b", priority=3)
    assert [queue.claim().message.payload for _ in range(3)] == ["rerun", {"tenant": "a", "n": 0}, "small"]
    operator = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=["x"], group="{{ 1 + 1 }}")
    context = task_context(operator)
    operator.render_template_fields(context)
    operator.execute(context)
    assert [queue.claim().message.group for _ in range(3)].count("2") == 1
