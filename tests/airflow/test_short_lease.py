"""A lease that ends before the retry begins causes a warning when the DAG is parsed."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.retries import ShortLeaseWarning
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeasedConfig
from tests.airflow.home import EXAMPLES

Make = Callable[..., object]


def work(messages: Any) -> None: ...


def consume(lease: float | None, **options: Any) -> object:
    config = LeasedConfig(lease=lease)
    return RedisQueueConsumeOperator(task_id="t", redis_queue="q", on_batch=print, queue_config=config, **options)


def spark(lease: float | None, **options: Any) -> object:
    config = LeasedConfig(lease=lease)
    return RedisQueueSparkSubmitOperator(task_id="t", redis_queue="q", queue_config=config, **options)


def configured(lease: float | None, **options: Any) -> object:
    return redis_queue_task(work, queue="q", queue_config=LeasedConfig(lease=lease), **options)()


def decorated(lease: float, **options: Any) -> object:
    return redis_queue_task(work, queue="q", lease=lease, **options)()


def sensor(lease: float, **options: Any) -> object:
    return RedisQueueSensor(task_id="t", redis_queue="q", hand_over=lease, **options)


ALL: list[Make] = [consume, spark, configured, decorated, sensor]


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("lease", [60, 300])
def test_a_lease_no_longer_than_the_retry_delay_raises_a_warning(make: Make, lease: float) -> None:
    with pytest.warns(ShortLeaseWarning, match=rf"{lease} s and `retry_delay` is 300 s"):
        make(lease, retries=1)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(
    ("lease", "options"),
    [(60, {}), (60, {"retries": 0}), (301, {"retries": 1}), (60, {"retries": 1, "retry_delay": timedelta(seconds=30)})],
)
def test_no_warning_is_raised_without_retries_or_with_enough_time_for_them(
    make: Make, lease: float, options: dict[str, Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(lease, **options)


@pytest.mark.parametrize("make", [consume, spark, configured])
def test_an_endless_lease_or_one_that_only_the_connection_sets_raises_no_warning(make: Make) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(None, retries=1)
        RedisQueueConsumeOperator(task_id="t", redis_queue="q", on_batch=print, retries=1)
        redis_queue_task(work, queue="q", retries=1)()


def test_the_example_dags_leave_time_for_their_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mapped tasks are created in their worker, so their mapped arguments are checked separately."""
    examples = sorted(map(str, EXAMPLES.glob("*airflow*.py")))
    assert len(examples) > 5
    monkeypatch.syspath_prepend(EXAMPLES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ShortLeaseWarning)
        for example in examples:
            runpy.run_path(example)
