"""The operator sends Redis nothing more than a publish with the core. The benchmarks measure the time it adds."""

from __future__ import annotations

from typing import Any

import redis

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_core import LeasedQueue
from tests.airflow.conftest import QUEUE, MakeContext
from tests.payload_kinds import PUBLISHED, READ

ITEMS = [{"order": number, "day": "2026-01-01"} for number in range(20_000)]


def script_calls(client: redis.Redis) -> int:
    """Return how many scripts ran since the last call, but for those that flush the history, about one a second."""
    stats = client.info("commandstats")
    flushes: int = stats.get("cmdstat_hset", {"calls": 0})["calls"]
    client.config_resetstat()
    return int(stats["cmdstat_evalsha"]["calls"]) - flushes


def test_publishing_many_items_takes_as_many_calls_as_the_core_alone(
    connection: str, secured_url: str, task_context: MakeContext
) -> None:
    with redis.Redis.from_url(secured_url) as client, LeasedQueue(client, QUEUE) as queue:
        client.config_resetstat()
        assert queue.publish_many(ITEMS).accepted == len(ITEMS)
        core = script_calls(client)
        made = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=lambda: iter(ITEMS))
        context: Any = task_context(made)
        made.render_template_fields(context)
        assert made.execute(context)["accepted"] == len(ITEMS)
        assert script_calls(client) == core


def test_the_operator_publishes_every_kind_of_payload(connection: str, queue: Any, task_context: MakeContext) -> None:
    made = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=lambda: PUBLISHED)
    context: Any = task_context(made)
    made.render_template_fields(context)
    assert made.execute(context)["accepted"] == len(PUBLISHED)
    with queue.process(max_messages=100) as batch:
        assert batch.payloads == READ
