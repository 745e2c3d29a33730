"""The methods of a StreamQueue below the consumer: entries, groups, reads of several, clients of every kind."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis

from rmq_core import PayloadError
from rmq_core.errors import QueueError
from tests.core.streams.stage import GROUP, HOUR_MS, STREAM, Stage
from tests.core.worlds import AsyncWorld


def add(stage: Stage, **fields: bytes) -> str:
    return stage.client.xadd(STREAM, fields).decode()


def test_an_entry_has_one_field_with_the_json_of_a_dict(stage: Stage) -> None:
    entry_id = stage.queue().enqueue({"b": "ü", "a": [1, None]})
    assert isinstance(entry_id, str)
    assert stage.client.xrange(STREAM) == [(entry_id.encode(), {b"data": '{"a":[1,null],"b":"ü"}'.encode()})]


@pytest.mark.parametrize("payload", ["text", b"bytes", [1], {"a": float("nan")}, {1: 2}, None])
def test_a_value_that_is_not_a_json_object_is_refused_before_anything_is_sent(stage: Stage, payload: Any) -> None:
    with pytest.raises(PayloadError):
        stage.queue().enqueue(payload)
    assert stage.client.keys() == []


def test_a_new_group_includes_entries_from_before_its_creation(stage: Stage) -> None:
    add(stage, data=b'{"n":1}')
    assert [message.payload for message in stage.queue().read()] == [{"n": 1}]


def test_a_deleted_group_is_not_created_again(stage: Stage) -> None:
    queue = stage.queue()
    queue.read()
    stage.client.xgroup_destroy(STREAM, GROUP)
    with pytest.raises(QueueError, match="NOGROUP"):
        queue.read()
    with pytest.raises(QueueError, match="NOGROUP"):
        queue.claim_stale()


def test_a_key_of_another_type_is_a_queue_error(stage: Stage) -> None:
    stage.client.set(STREAM, "taken")
    with pytest.raises(QueueError, match="WRONGTYPE"):
        stage.queue().read()


def test_a_malformed_entry_is_a_queue_error_that_names_it(stage: Stage) -> None:
    """Any read, also `next`, raises at once, leaves the entry pending for inspection, and spares the others."""
    consumer = stage.consumer()
    bad = [add(stage, data=b"{"), add(stage, wrong=b"{}"), add(stage, data=b"[1]"), add(stage, data=b"\xff")]
    good = add(stage, data=b"{}")
    for entry_id in bad:
        with pytest.raises(QueueError, match=f"entry {entry_id} of stream 'orders' is malformed") as raised:
            consumer.next()
        assert raised.value.message_id == entry_id
    assert consumer.next().id == good
    assert stage.pending() == [*bad, good]


def test_a_malformed_entry_does_not_affect_good_neighbours(stage: Stage) -> None:
    queue = stage.queue(max_read_count=10)
    add(stage, data=b'{"n":1}')
    bad = add(stage, data=b"{")
    add(stage, data=b'{"n":2}')
    assert [message.payload["n"] for message in queue.read()] == [1, 2]
    with pytest.raises(QueueError, match=bad):
        queue.read()
    assert queue.read() == []


@pytest.mark.parametrize("settings", [{"decode_responses": True}, {"protocol": 3}, {"protocol": 2}], ids=str)
def test_every_kind_of_client_reads_claims_and_acknowledges(stage: Stage, settings: dict[str, Any]) -> None:
    queue, other = (client_queue(stage, settings) for _ in range(2))
    entry_id = queue.enqueue({"n": "ü"})
    message = queue.read()[0]
    assert (message.id, message.payload) == (entry_id, {"n": "ü"})
    time.sleep(0.03)
    assert other.claim_stale(20) == [message]
    assert other.claim_stale(HOUR_MS) == []
    assert queue.read() == []
    assert (other.ack(message).settled, queue.ack(message).settled) == (1, 0)
    assert queue.backlog_stats()[:3] == (1, 0, 0)


def test_a_fake_client_reads_claims_and_acknowledges(stage: Stage) -> None:
    fakeredis = pytest.importorskip("fakeredis", reason="an extra of the tests")
    server = fakeredis.FakeServer()
    kind = fakeredis.FakeAsyncRedis if stage.world.flavour == "async" else fakeredis.FakeRedis

    def made() -> Any:
        return stage.world.make("StreamQueue", stage.config(), settings=kind(server=server))

    queue, other = made(), made()
    queue.enqueue({"n": 1})
    message = queue.read()[0]
    assert message.payload == {"n": 1}
    time.sleep(0.03)
    assert other.claim_stale(20) == [message]
    assert other.ack(message).settled == 1
    assert queue.read() == []


def test_payloads_are_returned_unchanged(stage: Stage) -> None:
    queue = stage.queue()
    payload = {"": "", "deep": {"a": [{"b": [1.5, True, None, "\u2028"]}]}, "long": "x" * 100_000}
    queue.enqueue(payload)
    assert queue.read()[0].payload == payload
    assert json.loads(stage.client.xrange(STREAM)[0][1][b"data"]) == payload


def client_queue(stage: Stage, settings: dict[str, Any]) -> Any:
    kind: Any = redis.asyncio.Redis if isinstance(stage.world, AsyncWorld) else redis.Redis
    client = kind.from_url(stage.world.url, **settings)
    return stage.world.make("StreamQueue", stage.config(), settings=client)
