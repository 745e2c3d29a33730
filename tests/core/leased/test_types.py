"""A value of the wrong type under a key of RMQ: refused before anything is written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig, LeasedQueue, RedisMessageQueueError
from rmq_core.errors import ScriptFailed, WrongKeyType
from tests.core.leases import key, snapshot

CONFIG = LeasedConfig(max_deliveries=9, completed_log=5, failed_log=5)
STRICT = LeasedConfig(max_deliveries=1)
KEYS = [
    "ready", "delayed", "leases", "fence", "dead", "completed", "failed", "waiters", "wake", "timer", "lease:job",
    "settled:job", "done:job", "settled:free", "done:free", "lease:free",
]  # fmt: skip
OPERATIONS: dict[str, Callable[[LeasedQueue, Any], Any]] = {
    "publish": lambda queue, _: queue.publish("x"),
    "publish many": lambda queue, _: queue.publish_many(["x", "y"]),
    "publish later": lambda queue, _: queue.publish("x", delay=1),
    "claim": lambda queue, _: queue.claim(),
    "claim many": lambda queue, _: queue.claim(max_messages=3),
    "claim by id": lambda queue, _: queue.claim(lease_id="free"),
    "claim again": lambda queue, _: queue.claim(lease_id="job"),
    "claim, waiting": lambda queue, _: queue.claim(wait=0.01),
    "claim next": lambda queue, lease: queue.claim_next(ack=lease),
    "adopt": lambda queue, _: queue.adopt("job", owner="other"),
    "extend": lambda queue, lease: queue.extend(lease, by=1000),
    "ack": lambda queue, lease: queue.ack(lease),
    "ack some": lambda queue, lease: queue.ack(lease, lease.messages[:2]),
    "ack each": lambda queue, lease: queue.ack(lease, lease.messages),
    "nack": lambda queue, lease: queue.nack(lease),
    "nack later": lambda queue, lease: queue.nack(lease, delay=1),
    "nack some": lambda queue, lease: queue.nack(lease, lease.messages[:2]),
    "release": lambda queue, lease: queue.release(lease),
    "release some": lambda queue, lease: queue.release(lease, lease.messages[:2]),
    "read": lambda queue, lease: queue.read(lease),
    "backlog": lambda queue, _: queue.backlog(),
    "stats": lambda queue, _: queue.stats(),
    "leases": lambda queue, _: queue.admin.leases(),
    "peek": lambda queue, _: queue.admin.peek(),
    "dead letters": lambda queue, _: queue.admin.dead_letters(),
    "redrive": lambda queue, _: queue.admin.redrive(),
    "pause": lambda queue, _: queue.admin.pause(),
    "resume": lambda queue, _: queue.admin.resume(),
    "cancel": lambda queue, _: queue.admin.cancel("unknown"),
    "dead letter": lambda queue, _: queue.admin.dead_letter(queue.admin.peek()[0].id),
    "settled": lambda queue, _: queue.settled("job"),
    **{
        f"purge {part}": lambda queue, _, part=part: queue.admin.purge(part)
        for part in ("ready", "isolated", "delayed", "dead")
    },
}


@contextlib.contextmanager
def lived_in(client: redis.Redis, *, awaited: bool) -> Iterator[tuple[LeasedQueue, Any]]:
    """A queue with values under most of its keys, and the lease that holds some messages."""
    client.flushdb()
    with LeasedQueue(client, "q", STRICT) as queue:
        queue.publish("doomed")
        queue.nack(queue.claim())  # type: ignore[arg-type]
    with LeasedQueue(client, "q", CONFIG) as queue:
        queue.publish_many([*"abcdefg"])
        lease = queue.claim(max_messages=4, lease_id="job")
        queue.publish("later", delay=3600)
        if awaited:
            client.zadd(key("waiters"), {"somebody": 10**13, "*": 10**13})
        yield queue, lease


def outcome(client: redis.Redis, name: str, operation: str, *, awaited: bool) -> str:
    """Return the outcome when `name` has a value of a wrong type: 'refused' or 'ignored'; others fail the test."""
    with lived_in(client, awaited=awaited) as (queue, lease):
        client.delete(key(name))
        client.xadd(key(name), {"foreign": "value"})
        before = snapshot(client)
        try:
            OPERATIONS[operation](queue, lease)
        except RedisMessageQueueError as error:
            if not isinstance(error, WrongKeyType | ScriptFailed):
                raise
            changed = dict(snapshot(client).items() ^ before.items())
            return f"wrote {sorted(changed)} before it refused" if changed else "refused"
        ended = name == "settled:job" and operation in {"ack", "claim next"}  # it is deleted with its lease
        assert ended or client.dump(key(name)) == before[key(name).encode()], f"{operation} changed a foreign value"
        return "ignored"


@pytest.mark.parametrize("awaited", [False, True], ids=["", "awaited"])
@pytest.mark.parametrize("name", KEYS)
def test_a_value_of_a_wrong_type_is_refused_or_ignored_and_nothing_is_written(
    redis_client: redis.Redis, name: str, *, awaited: bool
) -> None:
    outcomes = {operation: outcome(redis_client, name, operation, awaited=awaited) for operation in OPERATIONS}
    assert {operation: what for operation, what in outcomes.items() if what not in {"refused", "ignored"}} == {}


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("ready", ["publish", "publish many", "claim", "claim next", "nack", "release", "backlog", "redrive", "peek"]),
        ("delayed", ["publish later", "claim", "claim next", "nack later", "backlog", "stats"]),
        ("leases", ["claim", "claim again", "adopt", "extend", "ack", "ack each", "nack", "release", "backlog"]),
        ("fence", ["claim", "claim next", "claim again", "adopt"]),
        ("dead", ["nack", "nack some", "redrive", "dead letters", "purge dead"]),
        ("completed", ["ack", "ack some", "ack each", "claim next"]),
        ("failed", ["nack", "nack some"]),
        ("waiters", ["publish", "claim", "nack", "release", "redrive", "pause", "resume"]),
        ("wake", ["claim, waiting"]),
        ("timer", ["claim, waiting"]),
        ("lease:job", ["claim again", "adopt", "ack", "nack", "release", "extend", "read"]),
        ("lease:free", ["claim by id"]),
        ("settled:job", ["ack some", "ack each", "nack", "release", "read"]),
        ("done:job", ["ack", "ack each", "claim next", "settled"]),
        ("done:free", ["claim by id"]),
    ],
)
def test_an_operation_refuses_a_wrong_type_under_each_key_it_needs(
    redis_client: redis.Redis, name: str, operations: list[str]
) -> None:
    if name in {"wake", "timer"}:
        queue_is_empty(redis_client, name)
        return
    found = {operation: outcome(redis_client, name, operation, awaited=False) for operation in operations}
    assert found == dict.fromkeys(operations, "refused")


def queue_is_empty(client: redis.Redis, name: str) -> None:
    with LeasedQueue(client, "q", CONFIG) as queue:
        queue.stats()
        assert queue.claim() is None
        client.xadd(key(name), {"foreign": "value"})
        before = snapshot(client)
        with pytest.raises(WrongKeyType):
            queue.claim(wait=5)
        assert snapshot(client) == before


def test_a_takeover_while_others_wait_and_nothing_is_ready_writes_nothing_if_delayed_has_a_wrong_type(
    redis_client: redis.Redis,
) -> None:
    with lived_in(redis_client, awaited=True) as (queue, _):
        queue.admin.purge("ready")
        redis_client.delete(key("delayed"))
        redis_client.xadd(key("delayed"), {"foreign": "value"})
        before = snapshot(redis_client)
        with pytest.raises(WrongKeyType):
            queue.claim(lease_id="job")
        assert snapshot(redis_client) == before


def test_the_type_of_the_registry_key_is_checked_too(redis_client: redis.Redis) -> None:
    redis_client.set("rmq:queues", "foreign")
    before = snapshot(redis_client)
    with LeasedQueue(redis_client, "q") as queue:
        for call in (lambda: queue.publish("x"), queue.claim):
            with pytest.raises(WrongKeyType, match="another type"):
                call()
    assert snapshot(redis_client) == before


def test_a_value_of_a_wrong_type_under_any_deduplication_key_is_refused(redis_client: redis.Redis) -> None:
    with LeasedQueue(redis_client, "q") as queue:
        queue.publish("x", dedup_key="b")
        (taken,) = redis_client.keys(key("dedup:*"))
        redis_client.delete(taken)
        redis_client.rpush(taken, "foreign")
        before = snapshot(redis_client)
        for payloads in (["b"], ["a", "b", "c"]):
            with pytest.raises(WrongKeyType, match="another"):
                queue.publish_many(payloads, dedup_key=str)
        assert snapshot(redis_client) == before


def test_an_entry_that_is_not_a_message_is_reported_as_malformed(redis_client: redis.Redis) -> None:
    from rmq_core import MalformedMessage

    redis_client.rpush(key("ready"), "pushed by somebody else")
    with LeasedQueue(redis_client, "q") as queue:
        for read in (queue.admin.peek, lambda: queue.admin.cancel("x"), lambda: queue.claim().message):  # type: ignore[union-attr]
            with pytest.raises(MalformedMessage, match="23 bytes is not an RMQ envelope"):
                read()
