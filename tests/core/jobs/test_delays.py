"""Delayed jobs: when they become ready, how they are cancelled, and which clients promote them."""

from __future__ import annotations

import time

from tests.core.jobs.bench import KEYS, jobs, payloads
from tests.core.leases import PATIENCE_S, woken_soon
from tests.core.worlds import World


def now_ms(world: World) -> int:
    seconds, micros = world.client.time()
    return int(seconds * 1000 + micros // 1000)


def fall_due(world: World) -> None:
    for name in world.client.zrange(KEYS.delayed, 0, -1):
        world.client.zadd(KEYS.delayed, {name: 1})


def test_the_delay_is_counted_by_the_servers_clock(world: World) -> None:
    before = now_ms(world)
    jobs(world).add("later", delay=60, job_id="a")
    due = world.client.zscore(KEYS.delayed, "a")
    assert before <= due - 60_000 <= now_ms(world)


def test_jobs_that_are_due_come_in_the_order_of_their_times(world: World) -> None:
    queue = jobs(world)
    for hours in (3, 1, 2):
        queue.add("j", hours, delay=3600 * hours)
    for name in world.client.zrange(KEYS.delayed, 0, -1):
        world.client.zincrby(KEYS.delayed, -4 * 3_600_000, name)
    assert payloads(queue) == [1, 2, 3]


def test_a_delayed_job_can_be_cancelled_once(world: World) -> None:
    queue = jobs(world)
    queue.add("j", delay=60, job_id="a")
    assert [queue.cancel_delayed("a"), queue.cancel_delayed("a"), queue.cancel_delayed("b")] == [True, False, False]
    assert world.client.exists(KEYS.delayed, KEYS.later) == 0


def test_a_cancelled_unique_job_can_be_added_again(world: World) -> None:
    queue = jobs(world)
    queue.add_unique("j", job_id="a", delay=60)
    queue.cancel_delayed("a")
    assert queue.add_unique("j", job_id="a").accepted


def test_two_delayed_jobs_of_one_id_are_both_kept(world: World) -> None:
    queue = jobs(world)
    queue.add("j", 1, delay=60, job_id="a")
    queue.add("j", 2, delay=60, job_id="a")
    fall_due(world)
    assert sorted(payloads(queue)) == [1, 2]


def test_promoting_is_possible_from_any_client_at_any_time(world: World) -> None:
    queue = jobs(world)
    queue.add("j", 1, delay=60)
    assert queue.promote().promoted == 0
    fall_due(world)
    assert (queue.promote().promoted, queue.promote().promoted) == (1, 0)
    assert queue.stats()[:2] == (1, 0)


def test_two_promoters_promote_a_job_once(world: World) -> None:
    queue, other = jobs(world), jobs(world)
    queue.add_bulk({"name": "j", "data": number, "delay": 60} for number in range(1500))
    fall_due(world)
    racing = [world.in_background(one.promote) for one in (queue, other, queue, other)]
    assert sum(future.result().promoted for future in racing) == 1500
    assert sorted(payloads(queue)) == list(range(1500))


def test_a_waiting_claim_sees_a_job_when_it_is_due(world: World) -> None:
    queue = jobs(world)

    def attempt() -> float:
        began = time.monotonic()
        queue.add("j", 1, delay=0.2)
        lease = queue.claim(wait=PATIENCE_S)
        taken_s = time.monotonic() - began
        assert lease.message.payload == 1
        assert taken_s > 0.15
        queue.ack(lease)
        return taken_s

    assert woken_soon(attempt)
