"""The reaper returns what any worker holds for too long, in order, once."""

from __future__ import annotations

import time

import pytest

from rmq_core import LeaseLost
from rmq_core.reliable import Reaped
from rmq_core.reports import Outcome
from tests.core.leases import PATIENCE_S, eventually, frequent_heartbeats, kept
from tests.core.reliable.bench import (
    AN_HOUR_MS,
    KEYS,
    age,
    age_strays,
    drain,
    payloads,
    processing,
    reaper,
    running,
    worker,
)
from tests.core.worlds import World

NOTHING = Reaped(0, 0, 0)


def test_a_message_of_a_dead_worker_is_ready_after_the_timeout_and_not_before(world: World) -> None:
    queue = worker(world, timeout=600)
    queue.publish("a")
    queue.claim()
    age(world, ms=590_000)
    assert reaper(world, queue).run_once() == NOTHING
    age(world, ms=10_000)
    assert reaper(world, queue).run_once() == Reaped(1, 0, 0)
    message = queue.claim().message
    assert (message.payload, message.deliveries, message.history[0].kind) == ("a", 2, "expired")


def test_the_timeout_of_the_reaper_applies_to_claims_without_their_own(world: World) -> None:
    queue = worker(world, timeout=600)
    queue.publish("a")
    queue.claim()
    time.sleep(0.02)
    assert reaper(world, queue, timeout=60).run_once() == NOTHING
    assert reaper(world, queue, timeout=0.01).run_once().returned == 1


def test_an_entry_left_by_blmove_without_a_deadline_gets_one_and_returns_after_the_timeout(
    world: World,
) -> None:
    queue = worker(world)
    queue.publish("a")
    world.client.zadd(KEYS.workers, {"dead": 1})
    world.client.lmove(KEYS.queue, KEYS.processing("dead"), "RIGHT", "LEFT")
    reaping = reaper(world, queue)
    assert reaping.run_once() == Reaped(0, 0, 1)
    assert reaping.run_once() == NOTHING
    age_strays(world)
    assert reaping.run_once() == Reaped(1, 0, 0)
    assert (queue.claim().message.payload, world.client.exists(KEYS.strays)) == ("a", 0)


def test_an_unclaimed_entry_that_the_reaper_saw_first_still_goes_to_its_worker(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b"])
    queue.claim()
    world.client.lmove(KEYS.queue, KEYS.processing("w"), "RIGHT", "LEFT")
    assert reaper(world, queue).run_once().first_seen == 1
    assert queue.claim().message.payload == "b"
    assert world.client.exists(KEYS.strays) == 0


def test_a_live_worker_that_extends_its_lease_is_left_alone(world: World) -> None:
    queue = worker(world)
    queue.publish("a")
    lease = queue.claim()
    age(world)
    until = queue.extend(lease)
    assert until.timestamp() - time.time() > 500
    assert reaper(world, queue).run_once() == NOTHING
    assert queue.ack(lease).settled == 1


def test_heartbeats_keep_the_reaper_away_during_a_block(world: World) -> None:
    queue = worker(world, timeout=600)
    queue.publish("a")
    with frequent_heartbeats(), running(world, reaper(world, queue, interval=0.02)), queue.process() as batch:
        for _ in range(3):
            age(world, ms=300_000)
            kept(batch.lease, 600)
        assert not batch.lease.lost
    assert (drain(queue), processing(world)) == ([], [])


def test_several_messages_return_in_their_order(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b", "c", "d"])
    for _ in "abc":
        queue.claim()
    age(world)
    assert reaper(world, queue).run_once().returned == 3
    assert payloads(queue.admin.peek(9)) == ["a", "b", "c", "d"]


def test_more_messages_than_one_script_moves_return_in_their_order(world: World) -> None:
    queue = worker(world)
    sent = [str(number) for number in range(2300)]
    queue.publish_many(sent)
    while queue.claim(max_messages=1000):
        pass
    age(world)
    assert reaper(world, queue).run_once().returned == 2300
    assert payloads(queue.admin.peek(3000)) == sent


def test_two_reapers_return_each_message_once(world: World) -> None:
    queue, other = worker(world), worker(world, "other")
    queue.publish_many([str(number) for number in range(200)])
    queue.claim(max_messages=200)
    age(world)
    rounds = [world.in_background(reaper(world, one).run_once) for one in (queue, other, queue, other)]
    assert sum(one.result(PATIENCE_S).returned for one in rounds) == 200
    assert queue.stats()[:3] == (200, 0, 0)


def test_an_ack_that_races_a_reaper_either_succeeds_or_is_lost(world: World) -> None:
    queue, acked = worker(world), 0
    queue.publish_many([str(number) for number in range(60)])
    leases = [queue.claim() for _ in range(60)]
    age(world)
    reaping = [world.in_background(reaper(world, queue).run_once) for _ in range(2)]
    for lease in reversed(leases):
        try:
            acked += queue.ack(lease).settled
        except LeaseLost:
            assert lease.lost
    returned = sum(one.result(PATIENCE_S).returned for one in reaping)
    returned += reaper(world, queue).run_once().returned
    assert (acked + returned, queue.stats().ready, processing(world)) == (60, returned, [])


def test_a_late_ack_touches_nothing_of_the_next_holder(world: World) -> None:
    queue, next_one = worker(world, "slow"), worker(world, "next")
    queue.publish("a")
    late = queue.claim()
    age(world, "slow")
    reaper(world, queue).run_once()
    held = next_one.claim()
    for settle in (queue.ack, queue.nack, queue.release, queue.extend):
        with pytest.raises(LeaseLost):
            settle(late)
    assert next_one.ack(held).settled == 1


def test_a_late_ack_touches_nothing_of_the_same_workers_next_claim(world: World) -> None:
    queue = worker(world)
    queue.publish("a")
    released = queue.claim()
    queue.release(released)
    held = queue.claim()
    assert held.envelopes == released.envelopes
    assert queue.ack(released, [released.message]).outcomes == (Outcome.LOST,)
    assert queue.ack(held).settled == 1


def test_a_batch_with_one_reaped_message_is_lost_as_a_whole(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b"])
    lease = queue.claim(max_messages=2)
    world.client.hdel(KEYS.claims("w"), lease.messages[0].id)
    for settle in (queue.ack, queue.nack, queue.release, queue.extend):
        with pytest.raises(LeaseLost):
            settle(lease)
    assert len(processing(world)) == 2


def test_lists_of_unregistered_workers_are_found_without_scanning_the_keyspace(world: World) -> None:
    for name in ("gone", "gone too"):
        one = worker(world, name)
        one.publish(name)
        one.claim()
        age(world, name)
    world.client.config_resetstat()
    assert reaper(world, worker(world, "late comer")).run_once().returned == 2
    used = set(world.client.info("commandstats"))
    assert used.isdisjoint({"cmdstat_keys", "cmdstat_scan"})


def test_a_worker_restarted_under_its_name_continues_and_its_old_messages_return(world: World) -> None:
    before = worker(world)
    before.publish_many(["a", "b"])
    before.claim()
    after = worker(world)
    lease = after.claim()
    assert lease.message.payload == "b"
    age(world)
    after.extend(lease)
    assert reaper(world, after).run_once().returned == 1
    assert (after.ack(lease).settled, after.claim().message.payload) == (1, "a")


def test_a_message_that_fails_too_often_becomes_a_dead_letter(world: World) -> None:
    queue, reaped = worker(world), []
    queue.publish("poison")
    for _ in range(3):
        assert queue.claim()
        age(world)
        reaped.append(reaper(world, queue, max_deliveries=3).run_once())
    assert reaped == [Reaped(1, 0, 0), Reaped(1, 0, 0), Reaped(0, 1, 0)]
    (letter,) = queue.admin.dead_letters()
    assert (letter.payload, letter.deliveries, [failure.owner for failure in letter.history]) == (
        "poison",
        3,
        ["w"] * 3,
    )


def test_an_entry_without_an_envelope_is_dead_lettered_instead_of_circulating_forever(world: World) -> None:
    queue = worker(world)
    world.client.lpush(KEYS.queue, b"pushed by hand")
    queue.claim()
    age(world)
    assert reaper(world, queue).run_once() == Reaped(0, 1, 0)
    assert world.client.lrange(KEYS.dead, 0, -1) == [b"pushed by hand"]


def test_a_reaper_repeats_until_it_is_stopped(world: World) -> None:
    queue = worker(world, timeout=0.05)
    queue.publish("a")
    queue.claim()
    with running(world, reaper(world, queue, interval=0.01)):
        eventually(lambda: queue.stats().ready)
    queue.claim()
    age(world)
    assert queue.stats().ready == 0


def test_a_reaper_that_cannot_reach_the_server_tries_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = world.open("reliable", settings="redis://127.0.0.1:1", config=worker(world, retry_budget=0.01).config)
    with running(world, reaper(world, nowhere, interval=0.01)):
        eventually(lambda: caplog.text.count("a round of the reaper of queue 'q' failed") >= 2)


def test_a_worker_is_forgotten_only_after_a_day_of_silence_without_messages(world: World) -> None:
    queue = worker(world)
    queue.publish("a")
    lease = queue.claim()
    now_ms = world.client.zscore(KEYS.workers, "w")
    for back_ms, known in ((23 * AN_HOUR_MS, 1), (25 * AN_HOUR_MS, 1)):
        world.client.zadd(KEYS.workers, {"w": now_ms - back_ms})
        reaper(world, queue).run_once()
        assert world.client.zcard(KEYS.workers) == known
    queue.ack(lease)
    reaper(world, queue).run_once()
    assert world.client.zcard(KEYS.workers) == 0
