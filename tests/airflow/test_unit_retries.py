from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from rmq_airflow.retries import SLOT_MARGIN_S, keep_lease_s, latest_delay_s


def task(**changes: Any) -> Any:
    plain = {"retry_delay": timedelta(seconds=60), "retry_exponential_backoff": 0, "max_retry_delay": None}
    return SimpleNamespace(**{**plain, **changes})


def context(try_number: int, max_tries: int, **changes: Any) -> Any:
    return {"ti": SimpleNamespace(try_number=try_number, max_tries=max_tries, task=task(**changes))}


def test_an_error_that_forbids_retries_keeps_nothing() -> None:
    assert keep_lease_s(context(1, 2), AirflowFailException()) is None


@pytest.fixture
def policies() -> Any:
    return pytest.importorskip("airflow.sdk.definitions.retry_policy", reason="Airflow has retry policies from 3.3 on")


def on_value_errors(policies: Any, **decision: Any) -> Any:
    return policies.ExceptionRetryPolicy(rules=[policies.RetryRule(exception=ValueError, **decision)])


def test_a_retry_policy_that_forbids_the_retry_keeps_nothing(policies: Any) -> None:
    policy = on_value_errors(policies, action=policies.RetryAction.FAIL)
    assert keep_lease_s(context(1, 2, retry_policy=policy), ValueError()) is None
    assert keep_lease_s(context(1, 2, retry_policy=policy), KeyError()) == 60 + SLOT_MARGIN_S


def test_the_lease_is_kept_past_the_delay_that_a_retry_policy_returns(policies: Any) -> None:
    later = on_value_errors(policies, retry_delay=timedelta(hours=2))
    assert keep_lease_s(context(1, 2, retry_policy=later), ValueError()) == 7200 + SLOT_MARGIN_S
    assert keep_lease_s(context(3, 2, retry_policy=later), ValueError()) is None, "a policy gives no further tries"
    sooner = on_value_errors(policies, retry_delay=timedelta(seconds=5))
    assert keep_lease_s(context(1, 2, retry_policy=sooner), ValueError()) == 60 + SLOT_MARGIN_S


def test_a_retry_policy_receives_airflows_arguments_and_one_that_raises_is_ignored() -> None:
    asked: list[Any] = []

    def evaluate(**given: Any) -> Any:
        asked.append(given)
        raise RuntimeError

    error, given = ValueError(), context(1, 2, retry_policy=SimpleNamespace(evaluate=evaluate))
    assert keep_lease_s(given, error) == 60 + SLOT_MARGIN_S
    assert asked == [{"exception": error, "try_number": 1, "max_tries": 2, "context": given}]


@pytest.mark.parametrize("try_number", [1, 2, 5, 9])
def test_the_delay_is_never_below_what_airflow_computes_for_exponential_backoff(try_number: int) -> None:
    # Airflow's own formula: ceil(60 * 2 ** (try - 1)), jittered up to almost twice that.
    longest_of_airflow = 2 * 60 * 2 ** (try_number - 1) - 1
    assert latest_delay_s(task(retry_exponential_backoff=2), try_number) >= longest_of_airflow


def test_the_delay_respects_the_caps_of_the_task_and_of_the_installation() -> None:
    capped = task(retry_exponential_backoff=2, max_retry_delay=timedelta(minutes=10))
    assert latest_delay_s(capped, 9) == 600
    assert latest_delay_s(task(retry_exponential_backoff=2), 5000) == 24 * 60 * 60
