from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.exceptions import AirflowException

from rmq_airflow.operators.check import RedisQueueCheckOperator
from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue
from rmq_core.orchestrate import LimitBounds, StatsLimits
from tests.airflow.conftest import QUEUE, MakeContext


def check(context: MakeContext, **options: Any) -> Any:
    operator = RedisQueueCheckOperator(task_id="check", redis_queue=QUEUE, **options)
    return operator.execute(context(operator))


@pytest.fixture
def dead(secured_url: str, queue: Any) -> None:
    """Three dead letters."""
    with LeasedQueue(secured_url, QUEUE, LeasedConfig(max_deliveries=1)) as strict:
        for name in "abc":
            strict.publish(name)
            strict.nack(strict.claim(), reason="no use")


def test_a_queue_within_its_limits_passes_and_its_numbers_are_returned(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish("a")
    limits = StatsLimits(depth=LimitBounds(warn=1), dead_letters=LimitBounds(error=0))
    report = {"queue": QUEUE, "measured": {"depth": 1, "dead_letters": 0}, "exceeded": []}
    assert check(task_context, limits=limits) == report
    assert queue.stats().ready == 1


def test_a_number_above_its_error_bound_fails_the_task_and_is_named(
    connection: str, dead: None, task_context: MakeContext
) -> None:
    with pytest.raises(AirflowException, match=r"Queue work: dead_letters is 3, above 2 \(error\)$"):
        check(task_context, limits=StatsLimits(dead_letters=LimitBounds(warn=0, error=2)))


def test_a_number_above_its_warn_bound_is_logged_and_the_task_succeeds(
    connection: str, dead: None, task_context: MakeContext, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(task_context)["exceeded"] == ["dead_letters"]  # the limits of the alerts: warn above 0
    assert "Queue work: dead_letters is 3, above 0 (warn)" in capsys.readouterr().out


def test_messages_that_are_due_count_as_ready(connection: str, queue: Any, task_context: MakeContext) -> None:
    queue.publish("a", delay=timedelta(milliseconds=1))
    limits = StatsLimits(oldest_age=LimitBounds(error=0), dead_letters=None)
    with pytest.raises(AirflowException, match=r"oldest_age is \d+\.\d s, above 0 s"):
        check(task_context, limits=limits)


def test_a_publication_fails_while_messages_are_left_or_dead_and_passes_when_all_are_done(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.admin.configure(groups="fair", max_deliveries=1)

    def checked() -> Any:
        operator = RedisQueueCheckOperator(task_id="check", redis_queue=QUEUE, publication="of {{ run_id }}")
        context = {**task_context(operator), "run_id": "run"}
        operator.render_template_fields(context)  # type: ignore[arg-type]
        return operator.execute(context)  # type: ignore[arg-type]

    with pytest.raises(AirflowException, match="publication 'of run': nothing was published under this name"):
        checked()
    queue.open_publication("of run")
    queue.publish_many(["a", "b"], publication="of run")
    lease = queue.claim()
    with pytest.raises(AirflowException, match="1 waiting, 1 leased, 1 still publishing, of 2 messages"):
        checked()
    queue.close_publication("of run")
    queue.nack(lease)
    queue.ack(queue.claim())
    with pytest.raises(AirflowException, match="'of run': 1 dead, of 2 messages"):
        checked()
    queue.admin.redrive()
    queue.ack(queue.claim())
    counts = {"messages": 2, "acked": 2, "dead": 0, "removed": 0}
    assert checked() == {"queue": QUEUE, "publication": "of run", **counts}


def test_a_publication_is_refused_with_limits_and_where_a_queue_counts_none(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    with pytest.raises(ConfigurationError, match="leave `limits` out"):
        check(task_context, publication="p", limits=StatsLimits())
    with pytest.raises(ConfigurationError, match="has no groups"):
        check(task_context, publication="p")
