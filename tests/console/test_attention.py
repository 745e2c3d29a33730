"""The overview says in numbers why queues need attention."""

from __future__ import annotations

from typing import Any

import httpx

from rmq_core import LeasedConfig, LeasedQueue
from tests.console.conftest import bury, fetch


async def reasons(page: httpx.AsyncClient) -> dict[str, list[str]]:
    rows = (await fetch(page, "queues"))["queues"]
    return {row["name"]: [sign["kind"] for sign in row["signs"]] for row in rows}


def opened(url: str, name: str, **config: Any) -> LeasedQueue:
    return LeasedQueue(url, name, LeasedConfig(**config))


async def test_each_queue_that_needs_attention_says_why(page: httpx.AsyncClient, redis_url: str) -> None:
    with opened(redis_url, "dying", max_deliveries=1) as queue:
        bury(queue, "bad")
    with opened(redis_url, "suspects") as queue:
        queue.publish_many([*"ab"])
        for _ in (1, 2):
            queue.nack(queue.claim(max_messages=2))
        queue.admin.pause()
    with opened(redis_url, "late") as queue:
        queue.publish("x")
        queue.claim(lease=0.001)
    with opened(redis_url, "calm") as queue:
        queue.publish("x")
    found = await reasons(page)
    assert found == {
        "dying": ["dying"], "suspects": ["paused", "isolated"], "late": ["expired"], "calm": [],
    }  # fmt: skip
    assert list(found)[-1] == "calm"


async def test_a_dead_letter_that_no_history_counted_is_dated_by_its_failure(
    page: httpx.AsyncClient, redis_url: str
) -> None:
    with opened(redis_url, "work", max_deliveries=1, history=False) as queue:
        bury(queue, "bad")
    assert await reasons(page) == {"work": ["dying"]}
