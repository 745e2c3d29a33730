"""A pop that waits blocks in Redis; it neither spins nor sleeps."""

from __future__ import annotations

import time

from tests.core.leases import PATIENCE_S, blocked, eventually
from tests.core.rotation.bench import KEYS, now_s, put, rotation
from tests.core.worlds import World


def scripts_run(world: World) -> int:
    found = world.client.info("commandstats")
    return sum(found.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


def test_waiting_times_out_without_work(world: World) -> None:
    queue, began = rotation(world), time.monotonic()
    assert queue.safe_pop(wait=0.05) is None
    assert time.monotonic() - began > 0.04
    assert world.client.exists(KEYS.waiters) == 0


def test_a_push_wakes_a_waiting_pop(world: World) -> None:
    waiting = world.in_background(rotation(world).safe_pop, wait=PATIENCE_S)
    blocked(world, 1)
    rotation(world).push("a")
    assert waiting.result(PATIENCE_S) == "a"


def test_an_id_that_becomes_late_ends_the_wait(world: World) -> None:
    queue = rotation(world, timeout=30)
    put(world, f"a|{now_s(world) - 30}", f"b|{now_s(world)}")
    assert queue.safe_pop(wait=PATIENCE_S) == "a"


def test_a_wait_with_ids_in_progress_does_not_spin(world: World) -> None:
    queue = rotation(world)
    put(world, *[f"{number}|{now_s(world)}" for number in range(50)])
    world.client.config_resetstat()
    assert queue.safe_pop(wait=0.5) is None
    assert scripts_run(world) <= 4


def test_a_plain_lpush_is_found_by_the_next_poll(world: World) -> None:
    waiting = world.in_background(rotation(world).safe_pop, wait=PATIENCE_S)
    blocked(world, 1)
    world.client.lpush("q", "a")
    world.client.lpush(KEYS.wake, "1")  # the poll that comes after 5 s at the latest, now
    assert waiting.result(PATIENCE_S) == "a"
    eventually(lambda: world.client.exists(KEYS.waiters) == 0)
