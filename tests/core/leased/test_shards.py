"""Queues in several shards: callers see one queue, whatever changes meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from contextlib import nullcontext, suppress
from math import inf
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig, LeasedQueue, Match, NewMessage, Overflow
from rmq_core.asyncio import WaitHub
from rmq_core.envelope.payloads import key_digest
from rmq_core.errors import (
    ConfigurationError,
    LeaseLost,
    QueueFull,
    QueueNotEmpty,
    QueueUnavailable,
    RedisMessageQueueError,
)
from rmq_core.leased import settling
from rmq_core.leased.aio import read_all
from rmq_core.leased.queue import backlogs
from rmq_core.leased.shards.publishing import home_of
from rmq_core.leased.shards.resharding import spread
from rmq_core.leased.shards.state import slot_of
from rmq_core.leased.state import LeasedEngine
from rmq_core.redis_message_queue import RedisMessageQueue
from tests.core.worlds import World

LARGE = 4001
"""So many messages are claimed in parts."""


def in_shards(world: World, count: int = 3, **config: Any) -> Any:
    queue = world.queue(config=LeasedConfig(**config))
    queue.admin.configure(shards=count)
    return queue


def stale(world: World, **config: Any) -> Any:
    """Return a queue object that has read the settings, and does not read them again by itself."""
    queue = world.queue(config=LeasedConfig(**config))
    queue.stats()
    engine_of(queue).look_at = inf
    return queue


def engine_of(queue: Any) -> LeasedEngine:
    return getattr(queue, "inner", queue)._engine  # type: ignore[no-any-return]


def publish_again(queue: Any, text: str, **options: Any) -> None:
    """Publish to a queue that may have been forgotten: then an object that knew its shards begins a new one."""
    try:
        published = queue.publish(text, **options)
    except RedisMessageQueueError:
        published = queue.publish(text, **options)
    assert published.accepted


def drained(queue: Any, most: int = 100) -> list[str]:
    """Claim and ack until there is nothing; return the payloads."""
    found: list[str] = []
    while lease := queue.claim(max_messages=most):
        found += [message.payload for message in queue.messages(lease)]
        queue.ack(lease)
    return found


def calls_of(world: World, command: str) -> int:
    found = world.client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})
    return found["calls"]  # type: ignore[no-any-return]


def keys_of(world: World, pattern: str) -> list[bytes]:
    return sorted(world.client.keys(pattern))


@pytest.mark.everywhere
def test_callers_see_one_queue(world: World) -> None:
    queue, other = in_shards(world), world.queue()
    texts = [f"m{number}" for number in range(30)]
    for text in texts[:10]:
        assert queue.publish(text).accepted
    assert other.publish_many(texts[10:]).accepted == 20
    assert len(keys_of(world, "*:ready*")) == 4  # three shards, and the mark in the place of the list
    assert other.stats().ready == other.backlog().ready == 30
    assert sorted(message.payload for message in other.admin.peek(30)) == sorted(texts)
    pages = [other.admin.browse("ready", offset, 7) for offset in range(0, 30, 7)]
    assert sorted(message.payload for page in pages for message in page.messages) == sorted(texts)
    assert {page.total for page in pages} == {30}
    cancelled = pages[0].messages[0]
    assert other.admin.cancel(cancelled.id)
    assert not other.admin.cancel(cancelled.id)
    assert sorted([*drained(queue, 4), cancelled.payload]) == sorted(texts)
    assert queue.stats() == other.stats()
    assert not queue.stats().leases


def test_a_named_lease_gets_messages_of_all_shards(world: World) -> None:
    queue, other = in_shards(world), world.queue()
    queue.publish_many(NewMessage(str(number)) for number in range(3000))
    for number in range(30):
        queue.publish(str(3000 + number))
    lease = queue.claim(max_messages=3030, lease_id="run", owner="first")
    assert lease.count == 3030
    assert len(lease.parts) == 3
    assert other.stats().leased == 3030
    assert [each.count for each in other.admin.leases()] == [3030]
    assert other.lease_info("run").owner == "first"
    messages = list(queue.messages(lease))
    assert sorted(int(message.payload) for message in messages) == list(range(3030))
    assert [message.index for message in messages] == list(range(3030))
    assert [message.payload for message in queue.read(lease, 1500, 2500)] == [
        message.payload for message in messages[1500:2500]
    ]
    again = other.claim(max_messages=1, lease_id="run", owner="second")
    assert (again.count, again.takeovers) == (3030, 1)
    assert {message.deliveries for message in other.messages(again)} == {2}
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    report = other.ack(again, messages[:10] and [again.messages[place] for place in (0, 1500, 3029)])
    assert report.settled == 3
    assert other.ack(again).settled == 3027
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_lease_whose_part_is_lost_acks_nothing(world: World) -> None:
    """As after a fail-over of one node that lost its last writes."""
    queue = in_shards(world)
    for number in range(30):
        queue.publish(str(number))
    lease = queue.claim(max_messages=30, lease_id="run")
    name, part = lease.parts[-1]
    prefix = f"rmq:shard:{{q~{name}}}:" if name != "0" else "rmq:{q}:"
    world.client.delete(f"{prefix}lease:{part.id}")
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    queue.admin.expire_lease("run")
    assert len(drained(queue)) == 30 - part.count


@pytest.mark.parametrize("how", ["expire", "takeovers"])
def test_what_kills_its_holders_becomes_a_dead_letter(world: World, how: str) -> None:
    queue = in_shards(world, max_deliveries=3)
    for number in range(3):
        queue.publish(str(number))
    for _ in range(40):
        lease = queue.claim(max_messages=3, lease_id="run")
        if lease is None:
            break
        if how == "expire":
            queue.admin.expire_lease("run")
    assert queue.stats().dead == 3
    assert queue.admin.redrive() == 3
    assert len(drained(queue)) == 3


def test_parts_live_as_long_as_their_home(world: World) -> None:
    """Heartbeats extend the home only; whoever meets a part whose deadline has passed asks the home."""
    queue, other = in_shards(world, lease=0.4), world.queue(config=LeasedConfig(lease=0.4))
    for number in range(30):
        queue.publish(str(number))
    with queue.process(max_messages=30, lease_id="run") as batch:
        assert len(batch) == 30
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert other.claim() is None
            time.sleep(0.05)
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_an_expired_lease_gives_back_all_parts(world: World) -> None:
    queue, other = in_shards(world), world.queue()
    for number in range(30):
        queue.publish(str(number))
    queue.claim(max_messages=30, lease_id="run", lease=0.1)
    time.sleep(0.15)
    found: list[Any] = []
    while lease := other.claim(max_messages=10):
        found += lease.messages
        other.ack(lease)
    assert len(found) == 30
    assert {message.deliveries for message in found} == {2}


def test_waiting_consumers_are_woken_by_any_shard(world: World) -> None:
    queue = in_shards(world)
    waiting = [world.in_background(world.queue().claim, wait=20) for _ in range(4)]
    deadline = time.monotonic() + 10
    while world.client.zcard("rmq:{q}:parked") < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for number in range(4):
        queue.publish(str(number))
    assert sorted(each.result(4).messages[0].payload for each in waiting) == ["0", "1", "2", "3"]


def test_a_message_wakes_one_of_the_consumers_that_wait(world: World) -> None:
    """The others would all look into each shard, for nothing."""
    queue, waiting = in_shards(world), [world.in_background(world.queue().claim, wait=8) for _ in range(5)]
    while world.client.zcard("rmq:{q}:parked") < 5:
        time.sleep(0.01)
    time.sleep(0.3)  # until all of them block
    before = calls_of(world, "blpop")
    for number in range(3):
        queue.publish(str(number))
        time.sleep(0.3)
    assert sum(each.done() for each in waiting) == 3
    # Some servers count a call that blocked once it ends.
    assert calls_of(world, "blpop") <= before + 3
    queue.publish_many(["3", "4"])
    assert all(each.result(4).count == 1 for each in waiting)


@pytest.mark.everywhere
def test_a_large_publish_goes_to_all_shards_at_once(world: World) -> None:
    """Also by a client whose map is old."""
    queue, old = in_shards(world), stale(world)
    consumer = world.in_background(world.queue().claim, wait=20, max_messages=4000)
    queue.admin.configure(shards=5)
    report = old.publish_many([f"m{number}" for number in range(6000)])
    assert (report.accepted, len(set(report.ids))) == (6000, 6000)
    lease = consumer.result(20)
    texts = [message.payload for message in queue.messages(lease)]
    queue.ack(lease)
    assert sum(each.stats.ready > 0 for each in queue.admin.shards()) >= 4  # the consumer may have emptied one
    assert sorted(texts + drained(queue, 5000)) == sorted(f"m{number}" for number in range(6000))


def test_a_large_publish_that_is_refused_in_part_reports_what_is_stored(world: World) -> None:
    queue = in_shards(world, max_ready=3000)
    with pytest.raises(QueueFull) as refused:
        queue.publish_many([f"m{number}" for number in range(5000)])
    report = refused.value.report
    stored = {f"m{at}" for at, each in enumerate(report.ids) if each is not None}
    assert report.accepted == len(stored) == queue.stats().ready == 3000
    assert report.duplicates == 0
    assert set(drained(queue, 5000)) == stored


@pytest.mark.parametrize("how", ["nack", "delayed", "expiry"])
def test_waiting_consumers_get_what_comes_back(world: World, how: str) -> None:
    queue, other = in_shards(world), world.queue()
    for _ in range(3):
        queue.publish("x")
    leases = [queue.claim(lease=1.0 if how == "expiry" else 60) for _ in range(3)]
    waiting = [world.in_background(world.queue().claim, wait=20) for _ in range(3)]
    time.sleep(0.3)
    for lease in leases:
        if how == "nack":
            other.nack(lease)
        elif how == "delayed":
            other.nack(lease, delay=0.5)
    assert [each.result(4).count for each in waiting] == [1, 1, 1]


@pytest.mark.parametrize("counts", [(2, 4, 8, 3), (3, 1, 5)])
def test_keys_are_remembered_however_often_the_shards_change(world: World, counts: tuple[int, ...]) -> None:
    """By clients that know the map, and by ones that have known an older one since then."""
    plain = stale(world)
    known = {"plain": plain}
    for number in range(20):
        assert plain.publish(str(number), dedup_key=f"k{number}").accepted
    total = 20
    for count in counts:
        world.queue().admin.configure(shards=count)
        known[str(count)] = stale(world)
        for name, queue in known.items():
            for number in range(0, total, 7):
                assert not queue.publish("again", dedup_key=f"k{number}").accepted, (name, count, number)
            assert queue.publish(str(total), dedup_key=f"k{total}").accepted
            total += 1
        report = world.queue().publish_many(
            [str(each) for each in range(total + 10)], dedup_key=lambda text: f"k{text}"
        )
        assert (report.accepted, report.duplicates) == (10, total)
        total += 10
        assert not world.queue().admin.remembered("unknown")
        assert world.queue().admin.remembered("k0")
    assert Counter(drained(world.queue())) == Counter(str(number) for number in range(total))


@pytest.mark.parametrize("steps", range(9))
def test_a_change_of_the_shards_may_stop_anywhere(world: World, steps: int) -> None:
    """The client that changes them dies after so many requests; all others go on, and finish the change."""
    in_shards(world, 2)
    before, consumer = stale(world), stale(world)
    for number in range(10):
        before.publish(str(number), dedup_key=str(number))
    lease = consumer.claim(max_messages=3)
    dying = world.queue()
    dying.stats()
    _stop_after(dying, steps)
    with suppress(_Stopped):
        dying.admin.configure(shards=5)
    for number in range(10, 20):
        before.publish(str(number), dedup_key=str(number))
    fresh = world.queue()
    for number in range(20):
        assert not fresh.publish("again", dedup_key=str(number)).accepted
    fresh.publish("last")
    consumer.nack(lease)
    world.queue().admin.configure(shards=5)
    assert Counter(drained(world.queue())) == Counter([*(str(number) for number in range(20)), "last"])


class _Stopped(Exception):
    pass


def _stop_after(queue: Any, steps: int) -> None:
    """Let the client die after so many requests."""
    driver = getattr(queue, "inner", queue)._driver
    perform, left = driver.perform, [steps]

    def counted(*args: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            driver.perform = perform
            raise _Stopped
        return perform(*args)

    driver.perform = counted


def test_fewer_shards_run_empty_and_go(world: World) -> None:
    queue = in_shards(world, 5)
    for number in range(50):
        queue.publish(str(number))
    lease = queue.claim(max_messages=3)
    queue.admin.configure(shards=2)
    old = engine_of(queue).config.shards
    assert len(old.draining) == 3
    for number in range(50, 60):
        queue.publish(str(number))
    for name in old.draining:
        assert world.client.llen(f"rmq:shard:{{q~{name}}}:ready") <= 10
    queue.release(lease)
    assert sorted(map(int, drained(queue))) == list(range(60))


def test_producers_and_consumers_go_on_while_the_shards_change(world: World) -> None:
    """Growth and shrinking under load, by clients of both kinds: nothing is lost, nothing comes twice."""
    world.queue().publish("first")
    stop, sent, got, lock = threading.Event(), [0], Counter[str](), threading.Lock()

    def produce(number: int) -> None:
        queue, at = world.queue(), 0
        while not stop.is_set():
            queue.publish(f"{number}-{at}", dedup_key=f"{number}-{at}")
            assert not queue.publish(f"{number}-{at}", dedup_key=f"{number}-{at}").accepted
            at += 1
        with lock:
            sent[0] += at

    def consume() -> None:
        queue = world.queue()
        while True:
            lease = queue.claim(max_messages=5, wait=0.3)
            if lease is None:
                if stop.is_set():
                    return
                continue
            with lock:
                got.update(message.payload for message in lease.messages)
            queue.ack(lease)

    workers = [world.in_background(produce, number) for number in range(3)]
    workers += [world.in_background(consume) for _ in range(3)]
    for count in (2, 4, 8, 3):
        time.sleep(0.3)
        world.queue().admin.configure(shards=count)
    time.sleep(0.3)
    stop.set()
    for worker in workers:
        worker.result(60)
    got.update(drained(world.queue()))
    assert got.total() == sent[0] + 1
    assert set(got.values()) == {1}


def test_each_shard_tells_what_it_holds(world: World) -> None:
    plain = world.queue("plain")
    plain.publish("x")
    assert plain.admin.shards() == []
    waiting = world.queue()
    waiting.publish("x")
    queue = in_shards(world)
    queue.publish_many(NewMessage(str(number), dedup_key=str(number)) for number in range(30))
    lease = queue.claim(max_messages=12, lease_id="run")
    found = waiting.admin.shards()  # a client that knew of no shards a moment ago
    assert found[0].name == "0"
    assert len({each.slot for each in found}) == 3
    assert [(each.epoch, each.draining, each.error) for each in found] == [(1, False, None)] * 3
    assert sum(each.stats.ready for each in found) == 19
    assert {each.name: each.stats.leased for each in found if each.stats.leased} == {
        name: part.count for name, part in lease.parts
    }
    lost = found[1].name
    queue.admin.configure(shards=1)
    world.client.set(f"rmq:shard:{{q~{lost}}}:leases", "x")
    found = {each.name: each for each in queue.admin.shards()}
    assert (found["0"].draining, found["0"].stats.dead) == (False, 0)
    assert found[lost].draining
    assert found[lost].stats is None
    assert "another type" in found[lost].error


def test_a_message_of_any_shard_is_found(world: World) -> None:
    queue = in_shards(world)
    sent = [queue.publish(str(number)).id for number in range(9)]
    assert {queue.admin.why(each).state for each in sent} == {"ready"}
    assert queue.admin.why("nobody").state == "gone"


def test_shards_are_no_setting_of_a_program(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"queue\.admin\.configure\(shards=\.\.\.\)"):
        world.queue(config=LeasedConfig(shards=3))


def test_a_bound_is_divided(world: World) -> None:
    queue = in_shards(world, 3, max_ready=6, overflow=Overflow.RAISE)
    assert [queue.publish(str(number)).accepted for number in range(6)] == [True] * 6
    with pytest.raises(QueueFull):
        queue.publish("more")
    with pytest.raises(QueueFull) as refused:
        queue.publish_many(["a", "b", "c"])
    assert refused.value.report.accepted == 0
    queue.ack(queue.claim())
    assert queue.publish("more").accepted


def test_a_lease_from_before_stays_whole(world: World) -> None:
    queue = world.queue()
    queue.publish_many(["a", "b", "c"])
    lease, single = queue.claim(max_messages=2, lease_id="run"), queue.claim()
    world.queue().admin.configure(shards=3)
    follower = world.queue()
    again = follower.claim(lease_id="run", max_messages=5)
    assert [message.payload for message in again.messages] == ["a", "b"]
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    assert follower.ack(again).settled == 2
    assert queue.ack(single).settled == 1
    assert follower.stats()[:5] == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"groups": "fair"}, "groups"), ({"journal": "7d"}, "journal"),
        ({"overflow": "drop_oldest", "max_ready": 5}, "overflow"),
        ({"shards": 0}, "shards"), ({"shards": 65}, "shards"), ({"shards": None}, "shards"),
    ],
)  # fmt: skip
def test_what_shards_cannot_do_is_refused(world: World, settings: dict[str, Any], word: str) -> None:
    queue = in_shards(world)
    with pytest.raises(ConfigurationError, match=word):
        queue.admin.configure(**settings)
    assert queue.publish("x").accepted
    for stage in (lambda: queue.stage(["a"]), lambda: queue.publish_staged([]), lambda: queue.drop_staged([])):
        with pytest.raises(ConfigurationError, match=r"shards, .* publish_many"):
            stage()
    assert len(queue.admin.search("ready", Match(text="x")).messages) <= 1


def test_names_divide_the_slots_evenly() -> None:
    for queue in ("orders", "q", "a long name", "ÄÖ"):
        present: tuple[str, ...] = ("0",)
        for count in (2, 3, 6, 12, 24, 6, 3, 1, 4):
            names = spread(queue, count, present)
            assert len(set(names)) == count
            assert names[0] == "0"
            if count >= len(present):
                assert set(present) <= set(names), "shards stay when a queue grows"
            else:
                assert set(names) <= set(present), "no shard is added when a queue shrinks"
            present = names
        slots = sorted(slot_of(queue, name) for name in spread(queue, 6, ("0",)))
        nodes = Counter(slot * 3 // 16384 for slot in slots)
        assert max(nodes.values()) <= 3


async def test_watchers_see_all_shards(redis_client: redis.Redis, server_url: str) -> None:
    with LeasedQueue(server_url, "q") as queue:
        queue.admin.configure(shards=3)
        async with WaitHub(server_url) as hub:
            waiting = asyncio.create_task(hub.wait("q", min_messages=9, timeout=20))
            await asyncio.sleep(0.5)
            for number in range(9):
                await asyncio.to_thread(queue.publish, str(number))
            assert (await asyncio.wait_for(waiting, 4)).ready == 9
        assert backlogs(server_url, ["q"])["q"].ready == 9
        lease = queue.claim(max_messages=9, lease_id="run", lease=0.1)
        assert lease.count == 9
        await asyncio.sleep(0.15)
        assert (await read_all(server_url, {"q": LeasedConfig()}))["q"].stats.ready == 9


def test_a_redis_message_queue_refuses_shards(world: World) -> None:
    in_shards(world, 3)
    for call in ("publish", "claim"):
        queue = RedisMessageQueue("q", client=redis.Redis.from_url(world.url))
        with (
            pytest.raises(ConfigurationError, match="use LeasedQueue"),
            queue.process_message() if call == "claim" else nullcontext(),
        ):
            queue.publish("x")
    assert world.queue().stats().ready == 0


@pytest.mark.parametrize("own", [{"journal": 100}, {"overflow": Overflow.DROP_OLDEST, "max_ready": 5}])
def test_a_programs_own_settings_give_way_to_shards(world: World, own: dict[str, Any]) -> None:
    in_shards(world, 3)
    queue = world.queue(config=LeasedConfig(lease=77, **own))
    for number in range(9):
        queue.publish(str(number))
    assert queue.config.lease == 77
    assert sorted(map(int, drained(queue))) == list(range(9))


def test_an_id_is_free_only_when_all_parts_of_its_former_lease_are_acked(world: World) -> None:
    """A lease from which messages were released leaves no record of its ack, so its id may come again at once."""
    queue, other = in_shards(world), world.queue()
    for number in range(30):
        queue.publish(str(number))
    lease = queue.claim(max_messages=30, lease_id="run")
    queue.release(lease, [lease.messages[0]])
    _stop_after(queue, 2 if world.flavour == "sync" else 4)  # it dies after the ack was decided
    with suppress(_Stopped):
        queue.ack(lease)
    assert keys_of(world, "*:parts:run")
    again = other.claim(max_messages=30, lease_id="run")
    assert [message.payload for message in again.messages] == [lease.messages[0].payload]
    other.ack(again)
    assert other.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_part_that_nobody_knows_of_comes_back(world: World) -> None:
    """Of a lease that never expires, whose client died while it claimed, so that only a part is left."""
    queue = in_shards(world, lease=None)
    for number in range(30):
        queue.publish(str(number))
    lease = queue.claim(max_messages=30, lease_id="run")
    world.client.delete("rmq:{q}:lease:run")
    world.client.zrem("rmq:{q}:leases", "run")
    for name, _ in lease.parts:
        key = "rmq:{q}:leases" if name == "0" else f"rmq:shard:{{q~{name}}}:leases"
        (deadline,) = [score for _, score in world.client.zrange(key, 0, -1, withscores=True)]
        assert 0 < deadline - time.time() * 1000 < 700_000
        world.client.zadd(key, {f"~@{lease.id}": 1})
    assert len(drained(queue)) == 30


def test_a_claim_gets_what_it_takes_back_in_other_shards(world: World) -> None:
    queue = in_shards(world)
    for number in range(9):  # wherever the message is, and wherever the claim begins
        queue.publish(str(number))
        assert queue.claim(lease_id=f"run{number}").count == 1
        world.client.zadd("rmq:{q}:leases", {f"run{number}": 1})
        assert drained(queue) == [str(number)]


def test_a_paused_queue_keeps_no_waiting_consumer_busy(world: World) -> None:
    queue = in_shards(world)
    queue.publish("x")
    queue.admin.pause()
    before = world.client.info("commandstats")["cmdstat_evalsha"]["calls"]
    waiting = world.in_background(world.queue().claim, wait=20)
    time.sleep(0.5)
    assert world.client.info("commandstats")["cmdstat_evalsha"]["calls"] - before < 30
    queue.admin.resume()
    assert waiting.result(3).count == 1


@pytest.mark.parametrize("how", ["redrive", "release", "run now"])
def test_what_operators_make_ready_wakes_consumers(world: World, how: str) -> None:
    queue = in_shards(world, max_deliveries=1)
    queue.publish("x", delay=60 if how == "run now" else None)
    lease = None if how == "run now" else queue.claim(lease_id="run")
    if how == "redrive":
        queue.nack(lease)
    waiting = world.in_background(world.queue().claim, wait=20)
    time.sleep(0.3)
    if how == "redrive":
        queue.admin.redrive()
    elif how == "release":
        queue.admin.release_lease("run")
    else:
        queue.admin.run_now(queue.admin.browse("delayed").messages[0].id)
    assert waiting.result(3).count == 1


@pytest.mark.parametrize("lease_id", [None, "run"])
def test_closing_leaves_an_adopted_lease_alone_and_releases_an_unanswered_one(
    world: World, lease_id: str | None
) -> None:
    queue, other = in_shards(world), world.queue()
    for number in range(3):
        queue.publish(str(number))
    lease = queue.claim(max_messages=3, lease_id=lease_id)
    engine_of(queue).keep(lease)
    if lease_id is None:
        queue.close()
        assert other.stats().leased == 0
        return
    queue.adopt(lease.id, owner="me")
    queue.close()
    assert other.stats().leased == 3


def test_a_large_claim_without_a_reply_is_repeated(world: World) -> None:
    queue = in_shards(world)
    for _ in range(5):
        queue.publish_many("x" for _ in range(1000))
    lease = queue.claim(max_messages=LARGE)
    engine_of(queue).keep(lease)
    for _ in range(3):
        assert queue.claim() is not None  # from a shard each, of what is left
    again = queue.claim(max_messages=LARGE)
    assert (again.id, again.count, again.takeovers) == (lease.id, lease.count, 0)


def test_a_lease_in_parts_is_claimed_once_for_its_watchers(world: World) -> None:
    events: list[Any] = []
    queue = world.queue(on_event=events.append)
    queue.admin.configure(shards=3)
    for number in range(3):
        queue.publish(str(number))
    lease = queue.claim(max_messages=3, lease_id="run")
    queue.nack(lease)
    seen = [(str(event.operation), event.count) for event in events if event.claim_id == "run"]
    assert seen == [("claim", 3), ("nack", 1), ("nack", 1), ("nack", 1)]
    assert not [event for event in events if event.claim_id and event.claim_id.startswith("~")]


def test_a_sequential_lease_has_one_message_in_work(world: World) -> None:
    queue = in_shards(world)
    for number in range(30):
        queue.publish(str(number))
    lease = queue.claim(max_messages=30, lease_id="run", sequential=True)
    assert len(lease.parts) == 1
    queue.admin.expire_lease("run")
    counts = Counter(message.deliveries for message in queue.admin.peek(30))
    assert counts == {0: 29, 1: 1}


def test_a_part_that_is_settled_is_not_returned_again(world: World) -> None:
    events: list[Any] = []
    queue = world.queue(on_event=events.append)
    queue.admin.configure(shards=3)
    for number in range(6):
        queue.publish(str(number))
    lease = queue.claim(max_messages=6, lease_id="run")
    queue.ack(lease, lease.messages[: lease.parts[0][1].count])
    queue.nack(lease)
    assert not [event for event in events if str(event.operation) == "lost"]
    assert len(drained(queue)) == 4


def test_an_empty_queue_is_forgotten_with_all_of_its_shards(world: World) -> None:
    queue = in_shards(world, 4, max_deliveries=1)
    other, late = world.queue(), stale(world)
    queue.publish("x")
    lease = queue.claim(max_messages=5, lease_id="run")
    queue.admin.configure(shards=2)  # two drain
    steps = (
        ("1 lease", lambda: queue.release(lease)),
        ("1 ready", lambda: queue.nack(queue.claim())),
        ("1 dead", lambda: queue.admin.purge("dead")),
    )
    for holds, step in steps:
        with pytest.raises(QueueNotEmpty, match=holds):
            other.admin.unregister()
        assert stale(world).stats()[:5] == other.stats()[:5]
        step()
    other.admin.unregister()
    left = [key.rpartition(b":")[2] for key in keys_of(world, "rmq:*") if b"slot:" not in key and b":done:" not in key]
    assert set(left) == {b"fence"}  # as of a queue in one slot: no later token may equal one of before
    publish_again(late, "new")
    assert late.stats().ready == other.stats().ready == late.backlog().ready == 1
    assert drained(world.queue()) == ["new"]
    assert in_shards(world).publish("again").accepted


@pytest.mark.parametrize("steps", range(14))
@pytest.mark.parametrize(
    ("meanwhile", "others"),
    [
        ("publish", 0),
        ("configure", 0),
        ("dies", 0),
        *itertools.product(("configure dies", "publish dies"), range(1, 8)),
    ],
)
def test_a_queue_that_is_used_while_it_is_forgotten_loses_nothing(
    world: World, steps: int, meanwhile: str, others: int
) -> None:
    """The one that forgets it stops after so many requests: for ever, or until others have used the queue."""
    names = engine_of(in_shards(world)).config.shards.names
    other, all_texts = stale(world), [f"m{number}" for number in range(40)]
    # They lead to a shard that is left before the first one, which stays empty.
    extra, *texts = [text for text in all_texts if home_of(key_digest(text), names) == names[1]][:5]
    dying = stale(world)

    def use() -> None:
        if meanwhile == "configure":
            world.queue().admin.configure(shards=5)
            return
        if others:
            _stop_after(dying, others)
            with suppress(_Stopped, RedisMessageQueueError):
                if meanwhile == "configure dies":
                    dying.admin.configure(shards=3)
                else:
                    dying.publish(extra, dedup_key=extra)
        for text in texts:
            publish_again(other, text, dedup_key=text)

    with LeasedQueue(world.url, "q") as queue:
        perform, left = queue._driver.perform, [steps]

        def counted(*args: Any) -> Any:
            left[0] -= 1
            if left[0] == -1:
                if meanwhile == "dies":
                    raise _Stopped
                use()
            return perform(*args)

        queue._driver.perform = counted  # type: ignore[method-assign]
        with suppress(_Stopped, QueueNotEmpty):
            queue.admin.unregister()
        queue._driver.perform = perform  # type: ignore[method-assign]
    if meanwhile == "dies" or left[0] >= 0:
        use()
    last = world.queue()
    assert {*drained(last)} - {extra} == {*([] if meanwhile == "configure" else texts)}
    assert last.publish("x").accepted
    publish_again(other, "y")
    assert sorted(drained(last)) == ["x", "y"]


def test_heartbeats_of_other_shards_go_on_while_one_is_away(world: World) -> None:
    queue = in_shards(world)
    for number in range(3):
        queue.publish(str(number))
    leases = [queue.claim() for _ in range(3)]
    engine = engine_of(queue)
    away = engine.shards.of_lease(leases[0].id)  # type: ignore[union-attr]
    exchange = engine.routed(settling.extend_all)(engine, [(lease, None) for lease in leases])
    want = next(exchange)
    replies = [
        QueueUnavailable("away") if part.prefix == engine.shards.engines[away].prefix else [b"1"]  # type: ignore[union-attr]
        for part in want.parts
    ]
    with pytest.raises(StopIteration) as stop:
        exchange.send(replies)
    assert stop.value.value == [None, True, True]
