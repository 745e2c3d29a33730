from __future__ import annotations

import pytest
from redis import exceptions as redis_errors

import rmq_core
from rmq_core.errors import LeaseLost, QueueFull, RedisMessageQueueError, translate
from rmq_core.redis_message_queue.config import LuaScriptError, RetryBudgetExhaustedError, in_redis_terms

CUT = redis_errors.ConnectionError("cut")


def test_a_lost_connection_without_retries_is_redis_pys_error() -> None:
    assert in_redis_terms(translate(CUT), resent=False) is CUT


def test_a_spent_budget_has_the_last_failure_as_its_cause() -> None:
    error = in_redis_terms(translate(CUT), resent=True)
    assert isinstance(error, RetryBudgetExhaustedError)
    assert isinstance(error, redis_errors.RedisError | RedisMessageQueueError)
    assert error.__cause__ is CUT


@pytest.mark.parametrize("text", ["WRONGTYPE Operation", "OOM command not allowed", "ERR something"])
def test_a_script_that_refuses_is_a_response_error(text: str) -> None:
    cause = redis_errors.ResponseError(text)
    error = in_redis_terms(translate(cause), resent=True)
    assert isinstance(error, LuaScriptError)
    assert isinstance(error, redis_errors.ResponseError)
    assert (str(error), error.__cause__) == (text, cause)


def test_a_refused_login_is_redis_pys_error() -> None:
    cause = redis_errors.AuthenticationError("WRONGPASS")
    assert in_redis_terms(translate(cause), resent=True) is cause


@pytest.mark.parametrize("error", [LeaseLost("job"), RedisMessageQueueError("x")])
def test_other_errors_stay_unchanged(error: RedisMessageQueueError) -> None:
    assert in_redis_terms(error, resent=True) is error


def test_backpressure_is_also_a_full_queue() -> None:
    assert issubclass(rmq_core.errors.QueueBackpressureError, QueueFull)
