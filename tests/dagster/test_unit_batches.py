from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError, open_queue
from rmq_dagster import PipesRedisQueueSparkClient, RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.runs.claiming import LARGEST_BATCH, Terms

RESOURCE = RedisQueueResource(url="redis://localhost:1")
NOT_A_BATCH: list[Any] = [0, -1, LARGEST_BATCH + 1, 1.5, True, "10"]


@dg.op
def nothing() -> None: ...


@dg.job
def drain() -> None:
    nothing()


@pytest.mark.parametrize("messages", NOT_A_BATCH)
def test_an_invalid_batch_size_is_refused_before_anything_runs(messages: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"batch must be an integer from 1 to 1,000,000"):
        build_redis_queue_sensor("orders", target=drain, batch=messages)
    with pytest.raises(ConfigurationError, match="max_messages"):
        PipesRedisQueueSparkClient(RESOURCE, "orders", max_messages=messages)
    with pytest.raises(ConfigurationError, match="max_messages"):
        Terms(messages)


def test_an_unknown_value_of_on_settled_is_refused_with_the_known_ones() -> None:
    unknown: Any = "again"
    with pytest.raises(ConfigurationError, match="on_settled must be one of skip, next, not 'again'"):
        PipesRedisQueueSparkClient(RESOURCE, "orders", on_settled=unknown)


def test_an_unknown_discipline_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"discipline must be one of leased, .*, not 'fifo'"):
        open_queue(RESOURCE.settings(), "orders", "fifo")
