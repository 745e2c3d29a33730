"""A client that requeues a message keeps what a later version of RMQ wrote into it, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rmq_cli.records import message_record, message_row
from rmq_core import LeasedConfig, LeasedQueue, RedisMessageQueue
from rmq_core.errors import UnknownPayloadKind
from rmq_core.jobs import JobsConfig, worker
from rmq_core.jobs.worker import Delivery, Verdict
from rmq_core.reliable import ReliableConfig
from tests.core.leases import driver_of, engine_of, key
from tests.core.reliable import bench
from tests.core.worlds import World

BODY = b'later-1 z20 {"rmq-later":"kept"}\x00\xff payload'
AT = b"1764000000000"
LINES = {
    "no history": b"",
    "an addition": b"nack\t%b\tw\tno\x1flater 1\n" % AT,
    "an addition behind a mark": b"expired\t%b\tw\t\x1f1 0 0 1\x1flater\xff2\n" % AT,
    "a longer mark": b"nack\t%b\tw\tno\x1f1 0 0 1 77\n" % AT,
    "an unknown kind of line": b"paused\t%b\tw\tno\x1f1 0 0 1\x1flater 3\nnack\t%b\tw\tagain\n" % (AT, AT),
}
HOUR_S = 3600
CONFIG = LeasedConfig(lease=HOUR_S)
every_history = pytest.mark.parametrize("history", LINES.values(), ids=LINES)


def envelope(history: bytes, deliveries: int = 1, body: bytes = BODY) -> bytes:
    return b"%d %b %d %b%b" % (deliveries, AT, len(history), history, body)


def check_passed_on(found: bytes, history: bytes, deliveries: int, more: bytes = b"") -> None:
    """The envelope is as it was but for its number of deliveries and, if it failed, one more line of history."""
    count, stamp, length, rest = found.split(b" ", 3)
    lines, body = rest[: int(length)], rest[int(length) :]
    assert (int(count), stamp, body) == (deliveries, AT, BODY)
    assert lines.startswith(history)
    assert lines[len(history) :].split(b"\t")[0] == more


def expire(world: World, leases: bytes | str) -> None:
    for name in world.client.zrange(leases, 0, -1):
        world.client.zadd(leases, {name: 1})


def leased_expire(world: World, queue: Any, lease: Any) -> None:
    expire(world, key("leases"))
    queue.backlog()


def take_over(_: World, queue: Any, lease: Any) -> None:
    queue.release(queue.claim(lease_id=lease.id))


LEASED: dict[str, tuple[Callable[[World, Any, Any], Any], int, bytes]] = {
    "nack": (lambda _, queue, lease: queue.nack(lease, reason="r"), 2, b"nack"),
    "nack some": (lambda _, queue, lease: queue.nack(lease, list(queue.messages(lease))), 2, b"nack"),
    "delay": (lambda _, queue, lease: queue.nack(lease, delay=HOUR_S), 2, b"nack"),
    "release": (lambda _, queue, lease: queue.release(lease), 1, b""),
    "release some": (lambda _, queue, lease: queue.release(lease, list(queue.messages(lease))), 1, b""),
    "expire": (leased_expire, 2, b"expired"),
    "take over and release": (take_over, 2, b""),
}


@pytest.mark.parametrize("verb", LEASED)
@every_history
def test_a_leased_queue_keeps_what_it_does_not_know(world: World, history: bytes, verb: str) -> None:
    queue, (end, deliveries, more) = world.queue(config=CONFIG), LEASED[verb]
    world.client.rpush(key("ready"), envelope(history))
    end(world, queue, queue.claim(lease_id="job"))
    found = world.client.lrange(key("ready"), 0, -1) or world.client.zrange(key("delayed"), 0, -1)
    check_passed_on(found[0], history, deliveries, more)


@every_history
def test_a_dead_letter_with_additions_is_redriven_with_them(world: World, history: bytes) -> None:
    queue = world.queue(config=CONFIG)
    world.client.rpush(key("dead"), envelope(history, 9))
    assert queue.admin.redrive() == 1
    unmarked = history.replace(b"\x1f1 0 0 1\x1f", b"\x1f0 0 0 0\x1f").replace(b"\x1f1 0 0 1 7", b"\x1f0 0 0 0 7")
    assert world.client.lrange(key("ready"), 0, -1) == [envelope(unmarked, 0)]


@pytest.mark.parametrize("addition", [b"", b" 77", b"\x1flater 1"])
def test_an_isolated_message_with_an_addition_keeps_its_group(world: World, addition: bytes) -> None:
    queue = world.queue(config=LeasedConfig(lease=HOUR_S, max_deliveries=3))
    stored = envelope(b"nack\t%b\tw\tno\x1f2 5 4 2%b\n" % (AT, addition), 2)
    world.client.zadd(key("delayed"), {stored: -5})
    lease = queue.claim()
    assert (lease.isolation.failures, lease.isolation.most) == (2, 4)
    assert [each.reason for each in lease.message.history] == ["no"]
    queue.release(lease)
    assert world.client.zrange(key("delayed"), 0, -1, withscores=True) == [(stored, -5)]
    for _ in range(2):
        queue.nack(queue.claim())
    assert world.client.exists(key("dead")) == 0
    queue.nack(queue.claim())  # two of five deliveries do not count against it
    assert world.client.llen(key("dead")) == 1


def test_an_operator_moves_and_counts_messages_of_an_unknown_kind(world: World) -> None:
    queue = world.queue(config=LeasedConfig(dedup=True))
    world.client.rpush(key("ready"), envelope(b""))
    assert queue.backlog().ready == queue.stats().ready == 1
    (message,) = queue.admin.peek()
    record = message_record("q", message)
    assert (record["payload_base64"], record["headers"]) == ("AP8gcGF5bG9hZA==", {"rmq-later": "kept"})
    assert message_row(message)[0] == "later-1"
    assert queue.admin.cancel("later-1")


RELIABLE: dict[str, tuple[Callable[[World, Any, Any], Any], int, bytes]] = {
    "nack": (lambda _, queue, lease: queue.nack(lease, reason="r"), 2, b"nack"),
    "release": (lambda _, queue, lease: queue.release(lease), 1, b""),
    "expire": (lambda world, queue, _: (bench.age(world), queue.reap()), 2, b"expired"),
}


@pytest.mark.parametrize("verb", RELIABLE)
@every_history
def test_a_reliable_queue_keeps_what_it_does_not_know(world: World, history: bytes, verb: str) -> None:
    queue, (end, deliveries, more) = bench.worker(world, timeout=60), RELIABLE[verb]
    world.client.rpush(bench.KEYS.queue, envelope(history))
    end(world, queue, queue.claim())
    check_passed_on(world.client.lindex(bench.KEYS.queue, 0), history, deliveries, more)
    world.client.rename(bench.KEYS.queue, bench.KEYS.dead)
    assert queue.admin.redrive() == 1
    check_passed_on(world.client.lindex(bench.KEYS.queue, 0), history, 0, more)


def jobs(world: World, history: bytes) -> Any:
    queue = world.open("jobs", "q", JobsConfig(lease=HOUR_S))
    queue.publish("creates the group")
    queue.ack(queue.claim())
    world.client.xadd("rmq:{q}:jobs:ready", {"e": envelope(history)})
    return queue


def jobs_expire(world: World, queue: Any, lease: Any) -> None:
    expire(world, "rmq:{q}:jobs:leases")
    queue.backlog()


JOBS: dict[str, tuple[Callable[[World, Any, Any], Any], int, bytes]] = {
    "nack": (lambda _, queue, lease: queue.nack(lease, reason="r"), 2, b"nack"),
    "delay": (lambda _, queue, lease: queue.nack(lease, delay=HOUR_S), 2, b"nack"),
    "release": (lambda _, queue, lease: queue.release(lease), 1, b""),
    "expire": (jobs_expire, 2, b"expired"),
}


@pytest.mark.parametrize("verb", JOBS)
@every_history
def test_a_job_queue_keeps_what_it_does_not_know(world: World, history: bytes, verb: str) -> None:
    queue, (end, deliveries, more) = jobs(world, history), JOBS[verb]
    end(world, queue, queue.claim())
    entries = [fields[b"e"] for _, fields in world.client.xrange("rmq:{q}:jobs:ready")]
    found = entries or world.client.hvals("rmq:{q}:jobs:later")
    check_passed_on(found[0], history, deliveries, more)
    world.client.flushdb()
    world.client.rpush("rmq:{q}:jobs:dead", found[0])
    assert world.open("jobs").admin.redrive() == 1
    check_passed_on(world.client.xrange("rmq:{q}:jobs:ready")[0][1][b"e"], history, 0, more)


@every_history
def test_a_worker_keeps_what_it_does_not_know(world: World, history: bytes) -> None:
    queue = jobs(world, history)
    run = world.loop.call if hasattr(world, "loop") else lambda call, *args: call(*args)

    def taken() -> Delivery:
        (found,) = run(driver_of(queue).run, worker.turn(engine_of(queue), "w", worker.Done.nothing(), 1))
        return found

    run(driver_of(queue).run, worker.requeue(engine_of(queue), "w", [taken()]))
    check_passed_on(world.client.xrange("rmq:{q}:jobs:ready")[0][1][b"e"], history, 1)
    failing = worker.fail(engine_of(queue), "w", taken(), "later-1", Verdict(2, 60, "r"))
    assert run(driver_of(queue).run, failing) == b"later"
    check_passed_on(world.client.hget("rmq:{q}:jobs:later", "later-1"), history, 2, b"nack")


@pytest.mark.parametrize("discipline", ["leased", "reliable", "jobs"])
def test_reading_a_payload_of_an_unknown_kind_names_the_kind_and_the_way_out(world: World, discipline: str) -> None:
    queue = world.open(discipline, "q", ReliableConfig(worker="w") if discipline == "reliable" else None)
    if discipline == "jobs":
        queue = jobs(world, b"")
    else:
        world.client.rpush(bench.KEYS.queue if discipline == "reliable" else key("ready"), envelope(b""))
    lease = queue.claim()
    (message,) = lease.messages
    assert (message.id, message.raw, dict(message.headers)) == ("later-1", b"\x00\xff payload", {"rmq-later": "kept"})
    with pytest.raises(UnknownPayloadKind, match=r"unknown payload kind 'z': .* install that version") as raised:
        _ = message.payload
    assert raised.value.kind == "z"
    if discipline != "reliable":
        with pytest.raises(UnknownPayloadKind):
            queue.read_arrow(lease)


def test_a_message_queue_puts_a_message_of_an_unknown_kind_off(redis_client: Any, server_url: str) -> None:
    queue = RedisMessageQueue("q", client=redis_client, visibility_timeout_seconds=60)
    redis_client.rpush(key("ready"), envelope(b"", 0))
    queue.publish("known")
    with pytest.raises(UnknownPayloadKind), queue.process_message():
        pytest.fail("the handler got it")
    with queue.process_message() as message:
        assert message == b"known"
    check_passed_on(redis_client.zrange(key("delayed"), 0, -1)[0], b"", 1, b"nack")
    with LeasedQueue(server_url, "q") as other:
        assert other.stats().delayed == 1
