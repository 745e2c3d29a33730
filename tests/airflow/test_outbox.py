"""What a task publishes through an outbox is published once, whatever try fails; a cleared task publishes again."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, NewMessage, Unsupported
from tests.airflow.conftest import QUEUE, MakeContext

pytestmark = pytest.mark.usefixtures("connection")
IN, BETWEEN, AFTER = "in", "between", "after"


def operator(messages: Any = ("a", "b"), **options: Any) -> RedisQueuePublishOperator:
    return RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=messages, once=True, **options)


def payloads(queue: LeasedQueue) -> list[Any]:
    return [message.payload for message in queue.admin.peek(99)]


@pytest.mark.parametrize("fails", [IN, BETWEEN, AFTER, None])
def test_a_retried_task_publishes_each_block_once(queue: LeasedQueue, task_context: MakeContext, fails: str) -> None:
    seen: list[bool | None] = []

    def work(context: Any) -> None:
        def at(place: str) -> None:
            if place == fails and context["ti"].try_number == 1:
                raise ValueError

        with RedisQueueHook().outbox(context, QUEUE) as first:
            assert first.publish(["a", "b"]) == 2
            assert queue.stats().ready == (0, 2, 3)[len(seen)], "invisible until the end of the block"
            at(IN)
        seen.append(first.published)
        at(BETWEEN)
        with RedisQueueHook().outbox(context, QUEUE) as second:
            second.publish(["c"])
        seen.append(second.published)
        at(AFTER)

    task = operator()
    for number in (1, 2):
        try:
            work(task_context(task, try_number=number))
        except ValueError:
            continue
        break
    assert payloads(queue) == ["a", "b", "c"]
    assert queue.admin.peek(1)[0].headers["airflow-task-id"] == "publish"
    expected = {None: [True, True], IN: [True, True], BETWEEN: [True, False, True], AFTER: [True, True, False, False]}
    assert seen == expected[fails]


def test_the_operator_publishes_all_or_nothing_and_nothing_again_in_a_retry(
    queue: LeasedQueue, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq_airflow.operators.publish.CHUNK", 2)

    def broken() -> Any:
        yield from "abc"
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        operator(broken).execute(task_context(operator()))
    assert queue.stats()[:5] == (0, 0, 0, 0, 0), "a chunk was staged, and is gone"
    first, retry = (operator(list("abc"), headers={"h": "1"}) for _ in range(2))
    assert first.execute(task_context(first, try_number=2))["accepted"] == 3
    assert queue.ack(queue.claim(max_messages=3)).settled == 3  # it is gone, so nothing of the queue tells that it was
    context = task_context(retry, try_number=3)  # the second try was killed before Airflow knew of its success
    assert retry.execute(context) == {"queue": QUEUE, "accepted": 0, "duplicates": 3, "dropped": 0}
    assert payloads(queue) == []
    assert context["outlet_events"][retry.asset].asset_alias_events, "who waits for the event gets it"


def test_a_cleared_task_and_a_run_made_anew_publish_again(queue: LeasedQueue, task_context: MakeContext) -> None:
    def publish(*, began: int = 1, **tries: int) -> int:
        task = operator()
        context = task_context(task, **tries)
        context["dag_run"] = SimpleNamespace(
            start_date=datetime(2026, 1, began, tzinfo=UTC), run_after=None, clear_number=0
        )
        return int(task.execute(context)["accepted"])

    assert publish(try_number=1, max_tries=2) == 2
    assert publish(try_number=2, max_tries=2) == 0, "a retry"
    assert publish(try_number=3, max_tries=4) == 2, "Airflow adds its retries to the tries of a cleared task"
    assert publish(try_number=4, max_tries=4) == 0
    assert publish(began=2, try_number=1, max_tries=2) == 2, "a run that was deleted and made again under its name"


def test_airflow_gives_a_task_what_the_name_of_its_outbox_is_made_of() -> None:
    from airflow.sdk.api.datamodels._generated import DagRun
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    assert {"max_tries", "start_date"} <= RuntimeTaskInstance.model_fields.keys()
    assert DagRun.model_fields["start_date"].annotation


def test_partitions_have_an_outbox_each(queue: LeasedQueue, task_context: MakeContext, secured_url: str) -> None:
    from airflow.sdk import Asset

    asset = Asset("rmq-by-day")
    for number, accepted, duplicates in ((1, 3, 0), (2, 0, 3)):
        task = operator(["1a", "2b", "1c"], partition_by=lambda payload: f"day-{payload[0]}", asset=asset)
        context = task_context(task, try_number=number)
        report = task.execute(context)
        assert (report["accepted"], report["duplicates"]) == (accepted, duplicates)
        assert sorted(context["outlet_events"][asset].partition_keys) == ["day-1", "day-2"]
    for key, ready in {"day-1": 2, "day-2": 1}.items():
        with LeasedQueue(secured_url, f"{QUEUE}/{key}") as part:
            assert part.stats().ready == ready


def test_messages_belong_to_groups_and_publications(queue: LeasedQueue, task_context: MakeContext) -> None:
    queue.admin.configure(groups="fair")
    task = operator(["a", NewMessage("b", group="own")], group=lambda payload: f"of-{payload}", publication="report")
    task.execute(task_context(task))
    assert sorted(str(message.group) for message in queue.admin.peek(9)) == ["of-a", "own"]
    assert queue.publication("report").messages == 2


@pytest.mark.parametrize("messages", [[], ["a"]])
def test_a_publication_without_new_messages_ends(
    queue: LeasedQueue, task_context: MakeContext, messages: list[str]
) -> None:
    config = LeasedConfig(dedup=True)
    with LeasedQueue(queue.client, QUEUE, config) as known:
        known.publish_many(messages)
    queue.admin.configure(groups="fair")
    task = operator(messages, publication="report", queue_config=config)
    task.execute(task_context(task))
    assert queue.publication("report").done


def test_what_cannot_be_published_once_is_refused_with_the_way_out(
    task_context: MakeContext, monkeypatch: pytest.MonkeyPatch, secured_url: str
) -> None:
    for options in ({"delay": 5}, {"dedup_key": str}):
        with pytest.raises(ConfigurationError, match="leave `delay` and `dedup_key` out"):
            operator(**options)
    task = operator(queue_config=LeasedConfig(overflow=LeasedConfig().overflow.DROP_OLDEST, max_ready=9))
    with pytest.raises(ConfigurationError, match="DROP_OLDEST"):
        task.execute(task_context(task))
    location = secured_url.replace("redis://", "redis-queue://")
    monkeypatch.setenv("AIRFLOW_CONN_JOBS", f"{location}?discipline=jobs")
    with pytest.raises(Unsupported, match="outbox"):
        operator(redis_queue_conn_id="jobs").execute(task_context(task))
