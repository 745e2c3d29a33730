from __future__ import annotations

from typing import Any

import pytest

from rmq_airflow.operators.redrive import RedisQueueRedriveOperator
from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue
from tests.airflow.conftest import QUEUE, MakeContext


def redrive(context: MakeContext, **options: Any) -> Any:
    operator = RedisQueueRedriveOperator(task_id="redrive", redis_queue=QUEUE, **options)
    return operator.execute(context(operator))


@pytest.fixture
def dead(secured_url: str, queue: Any) -> None:
    """Three dead letters."""
    with LeasedQueue(secured_url, QUEUE, LeasedConfig(max_deliveries=1)) as strict:
        for name in "abc":
            strict.publish(name)
            strict.nack(strict.claim(), reason="no use")
    assert queue.stats().dead == 3


def test_dead_letters_become_ready_with_a_fresh_budget_and_their_history(
    connection: str, queue: Any, dead: None, task_context: MakeContext
) -> None:
    assert redrive(task_context) == {"queue": QUEUE, "redriven": 3, "dead": 0}
    (mark,) = queue.admin.marks()
    assert (mark.kind, mark.by.startswith("airflow:dag/run/")) == ("redrive", True)
    messages = queue.admin.peek(3)
    assert sorted(message.payload for message in messages) == ["a", "b", "c"]
    assert {message.deliveries for message in messages} == {0}
    assert {message.history[0].reason for message in messages} == {"no use"}


def test_max_messages_moves_the_oldest_and_a_retry_moves_the_next(
    connection: str, queue: Any, dead: None, task_context: MakeContext
) -> None:
    assert redrive(task_context, max_messages=2) == {"queue": QUEUE, "redriven": 2, "dead": 1}
    assert {message.payload for message in queue.admin.peek(3)} == {"a", "b"}
    assert redrive(task_context, max_messages=2) == {"queue": QUEUE, "redriven": 1, "dead": 0}


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, "all"])
def test_an_invalid_max_messages_is_refused_when_the_dag_is_parsed(bound: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_messages"):
        RedisQueueRedriveOperator(task_id="redrive", redis_queue=QUEUE, max_messages=bound)
