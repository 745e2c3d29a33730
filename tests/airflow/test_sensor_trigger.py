from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from rmq_airflow.triggers.sensor import RedisQueueTrigger
from rmq_core import LeasedQueue
from tests.airflow.conftest import QUEUE
from tests.faults.patience import PATIENCE_S, eventually_async

ROOT = Path(__file__).parents[2]


async def fire(trigger: RedisQueueTrigger) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        events = [event async for event in trigger.run()]
    (event,) = events
    assert isinstance(event, TriggerEvent)
    return dict(event.payload)


def test_it_serialises_to_the_same_text_in_another_process() -> None:
    code = (
        "from rmq_airflow.triggers.sensor import RedisQueueTrigger as T; import json; "
        "print(json.dumps(T('q', 2, 1.5).serialize()))"
    )
    other = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert other.stdout.splitlines()[-1] == json.dumps(RedisQueueTrigger("q", 2, 1.5).serialize())


async def test_it_fires_when_enough_is_published(connection: str, queue: LeasedQueue) -> None:
    waiting = asyncio.create_task(fire(RedisQueueTrigger(QUEUE, min_messages=2)))
    await asyncio.to_thread(queue.publish, "one")
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await asyncio.to_thread(queue.publish, "two")
    event = await waiting
    assert event["status"] == "success"
    assert (event["report"]["queue"], event["report"]["ready"]) == (QUEUE, 2)


async def test_cancelling_it_closes_its_connections(connection: str, queue: LeasedQueue) -> None:
    def connections() -> int:
        return sum(client["user"] == "airflow" for client in queue.client.client_list())

    waiting = asyncio.create_task(fire(RedisQueueTrigger(QUEUE)))
    await eventually_async(connections)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await eventually_async(lambda: connections() == 0)


async def test_a_missing_connection_is_an_error_event_and_no_exception() -> None:
    event = await fire(RedisQueueTrigger(QUEUE, redis_queue_conn_id="nowhere"))
    assert event["status"] == "error"
    assert "nowhere" in event["message"]


async def test_a_refused_password_is_an_error_event_that_does_not_show_it(
    connection: str, secured_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"conn_type": "redis_queue", "login": "airflow", "password": "wrong-9d1", "extra": {"url": secured_url}}
    monkeypatch.setenv("AIRFLOW_CONN_WRONG", json.dumps(fields))
    event = await fire(RedisQueueTrigger(QUEUE, redis_queue_conn_id="wrong"))
    assert event["status"] == "error"
    assert "wrong-9d1" not in event["message"]


def events(trigger: RedisQueueTrigger) -> AsyncIterator[TriggerEvent]:
    return trigger.run()
