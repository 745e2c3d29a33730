"""Messages that failed together are isolated, and every task that gets fewer messages because of it reports it."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG

from rmq_airflow import metrics
from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from tests.airflow.conftest import QUEUE, MakeContext
from tests.airflow.drivers import DRIVER

pytestmark = pytest.mark.usefixtures("connection")
SAID = "these have failed together before (2 times) and are tried apart from the others, at most 4 at a time"


@pytest.fixture
def suspects(queue: Any) -> Any:
    """A queue with eight messages that failed together twice."""
    queue.publish_many("abcdefgh")
    for _ in range(2):
        queue.nack(queue.claim(max_messages=8), delay=0)
    return queue


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the counts of the metric `rmq.isolated`."""
    counts: list[int] = []

    def incr(name: str, count: int = 1, *, tags: dict[str, Any]) -> None:
        assert set(tags) == {"queue", "operator"}
        counts.extend([count] * (name == "rmq.isolated"))

    monkeypatch.setattr(metrics.Stats, "incr", incr)
    return counts


def decorated(function: Any, **options: Any) -> Any:
    with DAG("dag", schedule=None):
        return redis_queue_task(function, task_id="work", queue=QUEUE, max_messages=30, **options)().operator


def test_a_decorated_task_logs_why_it_got_fewer_messages(
    suspects: Any, isolated: list[int], task_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    task = decorated(lambda messages: (len(messages), messages.isolation))
    count, why = task.execute(task_context(task))
    assert (count, str(why)) == (4, SAID)
    assert f"Got 4 of 30: {SAID}." in caplog.text
    assert isolated == [4]
    assert suspects.stats().ready == 4


def test_with_max_batches_one_run_continues_with_the_remaining_messages(
    suspects: Any, task_context: MakeContext
) -> None:
    task = decorated(lambda messages: list(messages.payloads), max_batches=None)
    done = task.execute(task_context(task))
    assert sorted(payload for batch in done for payload in batch) == list("abcdefgh")
    assert len(done) > 1
    assert suspects.stats()[:5] == (0, 0, 0, 0, 0)


def test_messages_that_did_not_fail_together_have_no_isolation(queue: Any, task_context: MakeContext) -> None:
    queue.publish_many("ab")
    task = decorated(lambda messages: messages.isolation)
    assert task.execute(task_context(task)) is None


def test_a_consumer_reports_how_many_messages_were_isolated(
    suspects: Any, isolated: list[int], task_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    suspects.publish_many("xyz")
    task = RedisQueueConsumeOperator(task_id="t", redis_queue=QUEUE, on_batch=len)
    report = task.execute(task_context(task))
    assert (report["acked"], report["isolated"]) == (11, 8)
    assert f"Got 4 of 100: {SAID}." in caplog.text
    assert isolated == [8]


@pytest.mark.usefixtures("spark_submit")
def test_a_spark_job_reports_how_many_messages_were_isolated(
    suspects: Any, isolated: list[int], task_context: MakeContext, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    task = RedisQueueSparkSubmitOperator(
        task_id="t",
        redis_queue=QUEUE,
        application=str(DRIVER),
        application_args=["adopt_and_ack", str(tmp_path / "marker")],
    )
    report = task.execute(task_context(task))
    assert (report["acked"], report["isolated"]) == (4, 4)
    assert f"Got 4 of 1000: {SAID}." in caplog.text
    assert isolated == [4]


def test_a_sensor_that_hands_over_reports_isolation_too(
    suspects: Any, isolated: list[int], task_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    task = RedisQueueSensor(task_id="t", redis_queue=QUEUE, hand_over=True)
    report = task.execute(task_context(task))
    assert (report["ready"], report["claimed"], report["isolated"]) == (8, 4, 4)
    assert f"Got 4 of all: {SAID}." in caplog.text
    assert isolated == [4]
