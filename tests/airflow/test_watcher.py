"""The doorbell trigger fires while there is work, and waits through every error until it is solved."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from rmq_airflow import waiting
from rmq_airflow.triggers import watcher
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger
from rmq_core import ConfigurationError, LeasedQueue
from tests.airflow.conftest import CANARY, QUEUE
from tests.faults.patience import PATIENCE_S, eventually_async


async def ring(events: AsyncIterator[TriggerEvent], within_s: float = PATIENCE_S) -> dict[str, Any]:
    async with asyncio.timeout(within_s):
        return dict((await anext(events)).payload)


async def test_it_fires_repeatedly_while_there_is_work_and_stops_when_there_is_none(
    connection: str, queue: LeasedQueue
) -> None:
    queue.publish_many(["one", "two"])
    events = RedisQueueDoorbellTrigger(QUEUE, repeat_interval=1).run()
    assert (await ring(events))["ready"] == 2
    queue.admin.purge("ready")
    queue.publish("three")
    assert (await ring(events))["ready"] == 1
    queue.admin.purge("ready")
    with pytest.raises(TimeoutError):
        await ring(events, within_s=2)


async def test_events_come_later_each_time_while_nothing_is_claimed_and_at_once_after_a_claim(
    connection: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(
        watcher, "repeat_after_s", lambda every_s, in_vain: waits.append(in_vain) or every_s * 2**in_vain
    )
    queue.publish_many(["one", "two"])
    events = RedisQueueDoorbellTrigger(QUEUE, repeat_interval=1).run()
    for _ in range(3):
        await ring(events)
    queue.claim()
    await ring(events)
    pending = asyncio.ensure_future(anext(events))
    await eventually_async(lambda: len(waits) == 4)
    pending.cancel()
    assert waits == [0, 1, 2, 0]
    assert "nothing was claimed since the last 2 event(s)" in capsys.readouterr().out


async def test_a_paused_queue_fires_no_event_and_the_log_says_why(
    connection: str, queue: LeasedQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.publish("one")
    queue.admin.pause()
    ringing = asyncio.ensure_future(ring(RedisQueueDoorbellTrigger(QUEUE).run()))
    told: list[str] = []
    await eventually_async(
        lambda: told.append(capsys.readouterr().out) or "is paused, with 1 messages" in "".join(told)
    )
    assert not ringing.done()
    queue.admin.resume()
    assert (await ringing)["ready"] == 1


async def test_work_that_arrives_during_its_wait_fires_an_event_at_once(connection: str, queue: LeasedQueue) -> None:
    events = RedisQueueDoorbellTrigger(QUEUE, repeat_interval=3600).run()
    ringing = asyncio.ensure_future(ring(events))
    await asyncio.sleep(0.5)
    await asyncio.to_thread(queue.publish, "one")
    assert (await ringing)["ready"] == 1


@contextmanager
def partition(queue: LeasedQueue, name: str) -> Iterator[LeasedQueue]:
    """The queue of a partition of `queue`."""
    with LeasedQueue(queue.client, f"{QUEUE}/{name}") as found:
        yield found


async def test_a_bell_for_each_partition_names_the_queues_that_have_enough_work_new_ones_too(
    connection: str, queue: LeasedQueue
) -> None:
    events = RedisQueueDoorbellTrigger(QUEUE, min_messages=2, repeat_interval=1, each_partition=True).run()
    queue.publish_many(["not", "a partition"])
    with partition(queue, "south") as south, partition(queue, "eu/north") as north, partition(queue, "west") as west:
        west.publish("too few")
        south.publish_many(["s1", "s2"])
        south.claim(max_messages=2, lease=0.01)  # by a worker that dies
        north.publish_many(["n1", "n2"])
        await asyncio.sleep(0.05)  # else only the second look finds the messages of the lease, and names north again
        rung = sorted([await ring(events), await ring(events)], key=lambda each: each["queue"])
        assert [(each["queue"], each["partition"], each["ready"]) for each in rung] == [
            (north.name, "eu/north", 2),
            (south.name, "south", 2),
        ]
        for each in (north, south):
            each.claim(max_messages=2)
        ringing = asyncio.ensure_future(ring(events))
        await asyncio.sleep(1.5)
        assert not ringing.done()
        west.publish("enough")
        assert (await ringing)["partition"] == "west"


async def test_partitions_that_cannot_be_heard_hide_no_other_and_the_log_says_so_once(
    connection: str, queue: LeasedQueue, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(watcher, "repeat_after_s", lambda every_s, in_vain: waits.append(in_vain) or 0)
    with partition(queue, "paused") as paused, partition(queue, "broken") as broken, partition(queue, "good") as good:
        for each in (paused, broken, good):
            each.publish("one")
        paused.admin.pause()
        queue.client.set(f"rmq:{{{broken.name}}}:leases", "foreign")
        events = RedisQueueDoorbellTrigger(QUEUE, repeat_interval=1, each_partition=True).run()
        assert [(await ring(events))["partition"] for _ in range(3)] == ["good"] * 3
        good.admin.purge("ready")
        paused.admin.resume()
        assert (await ring(events))["queue"] == paused.name
    told = capsys.readouterr().out
    assert told.count(f"Queue {broken.name} emits no event: it cannot be read: ") == 1
    assert told.count(f"Queue {paused.name} emits no event: it is paused") == 1
    assert told.count(f"Queue {good.name} has 1 messages ready, and nothing was claimed since the last 1") == 1
    assert waits[:2] == [0, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"each_partition": "*"},
        {"each_partition": True, "groups": ["a"]},
        {"each_partition": True, "each_group": True},
        {"redis_queue": ""},
        {"min_messages": 0},
        {"max_age": 0},
        {"repeat_interval": 0.5},
        {"repeat_interval": float("nan")},
        {"repeat_interval": "10"},
    ],
)
def test_conditions_that_can_never_be_met_are_refused_by_parameter(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        RedisQueueDoorbellTrigger(**{"redis_queue": QUEUE, **wrong})


@pytest.mark.parametrize("wrong", ["connection", "key"])
async def test_a_problem_is_logged_and_the_trigger_waits_until_it_is_solved(
    wrong: str, connection: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "MISTAKE_S", (0.2, 0.3))
    monkeypatch.delenv("AIRFLOW_CONN_LATER", raising=False)
    if wrong == "key":
        queue.client.set(f"rmq:{{{QUEUE}}}:ready", "foreign")
    conn_id = "later" if wrong == "connection" else connection
    ringing = asyncio.ensure_future(ring(RedisQueueDoorbellTrigger(QUEUE, redis_queue_conn_id=conn_id).run()))
    told: list[str] = []
    await eventually_async(lambda: told.append(capsys.readouterr().out) or "Cannot watch queue work" in "".join(told))
    assert not ringing.done()
    assert CANARY not in "".join(told)
    queue.client.delete(f"rmq:{{{QUEUE}}}:ready")
    monkeypatch.setenv("AIRFLOW_CONN_LATER", json.dumps(_fields(queue)))
    await asyncio.to_thread(queue.publish, "one")
    assert (await ringing)["ready"] == 1


def _fields(queue: LeasedQueue) -> dict[str, Any]:
    where = queue.client.connection_pool.connection_kwargs
    place = {"host": where["host"], "port": where["port"], "extra": {"db": where.get("db", 0)}}
    return {"conn_type": "redis_queue", "login": "airflow", "password": CANARY, **place}


async def test_every_event_is_counted_in_airflows_metrics(
    connection: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: dict[str, Any] = {}
    monkeypatch.setattr(waiting.Stats, "incr", lambda name, tags: heard.update({name: tags}))
    monkeypatch.setattr(waiting.Stats, "gauge", lambda name, value, tags: heard.update({name: value}))
    queue.publish("one")
    await ring(RedisQueueDoorbellTrigger(QUEUE).run())
    assert heard["rmq.trigger.fired"] == {"queue": QUEUE, "kind": "doorbell"}
    assert heard["rmq.queue.ready"] == 1
    assert heard["rmq.queue.oldest_age"] >= 0


async def test_every_event_is_added_to_the_span_that_airflow_opened_for_the_trigger(
    connection: str, queue: LeasedQueue
) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    queue.publish("one")
    with TracerProvider().get_tracer("airflow").start_as_current_span("trigger.doorbell") as span:
        await ring(RedisQueueDoorbellTrigger(QUEUE).run())
    (told,) = span.events  # type: ignore[attr-defined]
    assert (told.name, told.attributes["rmq.queue"], told.attributes["rmq.queue.ready"]) == (
        "rmq.trigger.fired",
        QUEUE,
        1,
    )


def test_airflows_message_queue_trigger_creates_it() -> None:
    from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger

    made = MessageQueueTrigger(scheme="redis+queue", redis_queue=QUEUE, min_messages=2)
    assert made.serialize() == RedisQueueDoorbellTrigger(QUEUE, 2).serialize()
    assert isinstance(made, BaseEventTrigger)


@pytest.mark.parametrize(
    ("missing", "module", "way_out"),
    [
        ("airflow.triggers.shared_stream", "rmq_airflow.triggers.shared_stream", "RedisQueueDoorbellTrigger"),
        (
            "airflow.providers.common.messaging.providers.base_provider",
            "rmq_airflow.queues.redis_queue",
            r"pip install 'rmq\[airflow-messaging\]'",
        ),
    ],
)
def test_a_feature_that_this_airflow_lacks_is_named_with_an_alternative(
    missing: str, module: str, way_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(AirflowOptionalProviderFeatureException, match=way_out):
        importlib.import_module(module)
