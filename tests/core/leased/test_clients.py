"""The clients that a queue accepts, what they reveal, and their behaviour in a fork."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from rmq_core import ConfigurationError, Durability, LeasedConfig, LeasedQueue, QueueUnavailable
from rmq_core.asyncio import LeasedQueue as AsyncQueue
from rmq_core.errors import NotDurable
from tests.core.leases import drain, payloads
from tests.core.worlds import World

SECRET = "canary-secret"
FORKING = """
import os, sys
from rmq_core import LeasedConfig, LeasedQueue

queue = LeasedQueue(sys.argv[1], "q", LeasedConfig(lease=60))
queue.publish("before")
read, write = os.pipe()
if not os.fork():
    ids = [queue.publish("child").id for _ in range(50)]
    lease = queue.claim(max_messages=2, lease=60)
    os.write(write, " ".join([lease.id, *ids]).encode())
    os._exit(0 if lease.count == 2 and queue.ack(lease).settled == 2 else 1)
ids = [queue.publish("parent").id for _ in range(50)]
lease = queue.claim(max_messages=2)
child = os.read(read, 100_000).decode().split()
_, status = os.wait()
assert status == 0, status
assert queue.ack(lease).settled == 2
assert {lease.id, *ids}.isdisjoint(child)
assert len({*ids, *child}) == 101
assert queue.stats()[:4] == (97, 0, 0, 0), queue.stats()
with queue.process() as batch:
    assert batch
print("fine")
"""
FORKED_HEARTBEAT = """
import os, sys, time
from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.queue import Heartbeat

renewed = Heartbeat.renewed

def often(heartbeat, now):
    renewed(heartbeat, now)
    heartbeat.next_at = now + 0.05

Heartbeat.renewed = often
queue = LeasedQueue(sys.argv[1], "q", LeasedConfig(lease=60))
queue.publish_many(["parent", "child"])
with queue.process(lease_id="parent"):
    if not os.fork():
        with queue.process(lease_id="child"):
            deadline = queue.lease_info("child").deadline
            while queue.lease_info("child").deadline == deadline:
                time.sleep(0.01)
        os._exit(0)
    _, status = os.wait()
    deadline = queue.lease_info("parent").deadline
    while queue.lease_info("parent").deadline == deadline:
        time.sleep(0.01)
assert status == 0
assert queue.stats()[:4] == (0, 0, 0, 0), queue.stats()
print("fine")
"""
FORKED_LEASES = """
import asyncio, os, sys, time
import rmq_core.asyncio
from rmq_core import LeasedConfig, LeasedQueue, messages


def child_sees(lease):
    if not os.fork():
        messages.monotonic = lambda: time.monotonic() + 3600
        os._exit(lease.lost)
    _, status = os.wait()
    return os.waitstatus_to_exitcode(status)


async def with_asyncio():
    async with rmq_core.asyncio.LeasedQueue(sys.argv[1], "q") as queue:
        async with queue.process() as batch:
            assert child_sees(batch.lease) == 0


queue = LeasedQueue(sys.argv[1], "q", LeasedConfig(lease=60))
queue.publish_many(["a", "b"])
with queue.process() as batch:
    assert child_sees(batch.lease) == 0
asyncio.run(with_asyncio())
assert queue.stats()[:4] == (0, 0, 0, 0), queue.stats()
print("fine")
"""


@pytest.fixture(params=[{}, {"decode_responses": True}, {"protocol": 3}, {"decode_responses": True, "protocol": 3}])
def client(request: pytest.FixtureRequest, world: World) -> Iterator[Any]:
    """A client that the user made with custom options, for the concurrency model of the world."""
    if world.flavour == "sync":
        with redis.Redis.from_url(world.url, **request.param) as made:
            yield made
    else:
        loop: Any = world.loop  # type: ignore[attr-defined]
        made = loop.call(redis.asyncio.Redis.from_url, world.url, **request.param).inner
        yield made
        loop.call(made.aclose)


def test_a_client_of_the_user_works_with_any_options(world: World, client: Any) -> None:
    queue = world.queue(settings=client, config=LeasedConfig(max_deliveries=2))
    queue.publish_many(["ż", b"\xff", {"a": 1}], dedup_key=repr)
    lease = queue.claim(max_messages=3, lease_id="job", owner="ż me")
    assert payloads(lease.messages) == ["ż", b"\xff", {"a": 1}]
    assert queue.admin.leases()[0] == queue.lease_info("job")
    queue.nack(lease, [lease.messages[1]], reason="ó")
    queue.ack(lease, lease.messages)
    again = queue.claim(lease_id="other", owner="ż me")
    assert again.message.history[0].reason == "ó"
    queue.ack(again)
    assert (queue.settled("other").owner, queue.claim(wait=0.02)) == ("ż me", None)
    assert (queue.backlog().ready, queue.admin.peek(), queue.admin.dead_letters(), queue.stats().leases) == (
        0,
        [],
        [],
        0,
    )


def test_closing_a_queue_leaves_the_client_of_the_user_open_and_claims_nothing(world: World, client: Any) -> None:
    queue = world.queue(settings=client)
    queue.publish("x")
    queue.close()
    queue.close()
    again = world.queue(settings=client)
    assert drain(again) == ["x"]


def test_a_queue_works_on_after_it_was_closed(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.close()
    assert drain(queue) == ["x"]


async def test_a_client_of_the_other_kind_is_refused(redis_client: Any, async_redis_client: Any) -> None:
    with pytest.raises(ConfigurationError, match="blocking client"):
        LeasedQueue(async_redis_client, "q")
    with pytest.raises(ConfigurationError, match=r"redis\.asyncio client"):
        AsyncQueue(redis_client, "q")
    for wrong in (None, 5, redis.Redis, redis_client.pipeline()):
        with pytest.raises(ConfigurationError, match="must be a client, RedisSettings or a URL"):
            LeasedQueue(wrong, "q")


@pytest.mark.parametrize("name", ["", "a{b}", "a\nb", "x" * 513, 5, None, "\ud800"])
def test_an_invalid_queue_name_is_refused(world: World, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        world.queue(name)


@pytest.mark.parametrize("script", [FORKING, FORKED_HEARTBEAT, FORKED_LEASES], ids=["calls", "heartbeats", "leases"])
def test_a_forked_child_and_its_parent_do_not_get_in_each_others_way(
    redis_client: redis.Redis, server_url: str, script: str
) -> None:
    assert redis_client.dbsize() == 0
    command = [sys.executable, "-c", script, server_url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (run.stdout, run.stderr) == ("fine\n", "")


def test_credentials_never_appear_in_errors_or_logs(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        place = world.url.removeprefix("redis://")
        for url in (f"redis://user:{SECRET}@{place}", f"redis://user:{SECRET}@127.0.0.1:1/0"):
            queue = world.queue(settings=url, config=LeasedConfig(retry_budget=0.01))
            with pytest.raises((ConfigurationError, QueueUnavailable)) as refused:
                queue.publish(SECRET)
            with pytest.raises((ConfigurationError, QueueUnavailable)):
                queue.claim()
            assert SECRET not in f"{refused.value!r} {refused.value} {queue!r} {getattr(queue, 'inner', queue)!r}"
            engine = getattr(queue, "inner", queue)._engine
            engine.unanswered.clear()
    assert SECRET not in caplog.text


def test_a_publish_that_no_replica_confirms_is_reported_and_stored(world: World) -> None:
    queue = world.queue(config=LeasedConfig(durability=Durability(replicas=1, timeout=0.01)))
    with pytest.raises(NotDurable, match="not confirmed"):
        queue.publish("a")
    with pytest.raises(NotDurable) as refused:
        queue.publish_many(map(str, range(1_500)))
    assert refused.value.report.accepted == 1_000
    assert queue.stats().ready == 1_001


def test_a_publish_that_needs_no_replica_is_confirmed(world: World) -> None:
    queue = world.queue(config=LeasedConfig(durability=Durability(replicas=0, timeout=0.01)))
    assert queue.publish("a").accepted
    assert queue.publish_many(map(str, range(1_500))).accepted == 1_500
    lease = queue.claim(max_messages=2)
    assert queue.ack(lease, lease.messages[:1]).settled == 1
    assert queue.ack(lease).settled == 1


def test_an_append_only_file_that_is_off_or_unknown_confirms_nothing(world: World) -> None:
    queue = world.queue(config=LeasedConfig(durability=Durability(replicas=0, timeout=0.01, aof=True)))
    with pytest.raises(NotDurable):
        queue.publish("a")
    assert world.queue().stats().ready == 1


class Wrapped(redis.Redis):
    """A client whose commands are observed, as tracing libraries do it."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        return super().execute_command(*args, **options)


def test_a_wrapped_client_without_transactions_publishes_and_stages_many(redis_client: redis.Redis) -> None:
    address = redis_client.connection_pool.connection_kwargs
    texts = [f"{number} \r\n" for number in range(5_500)]
    with Wrapped(host=address["host"], port=address["port"]) as client, LeasedQueue(client, "q") as queue:
        assert queue.publish_many(texts).accepted == len(texts)
        queue.publish_staged([queue.stage(texts)])
        assert drain(queue) == 2 * texts
