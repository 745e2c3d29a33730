"""Repeatable jobs: fired once by the first promoter, on time, and after an outage as their rule defines."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.jobs import Cron, Every, Missed, Repeat
from tests.core.jobs.bench import KEYS, jobs, payloads
from tests.core.worlds import World

HOUR_MS = 3_600_000


def now_ms(world: World) -> int:
    seconds, micros = world.client.time()
    return int(seconds * 1000 + micros // 1000)


def set_back(world: World, key: str, by_ms: int) -> None:
    """Simulate that no promoter ran for so long."""
    world.client.zadd(KEYS.repeats, {key: now_ms(world) - by_ms})


def rule(queue: Any, key: str = "tick") -> Any:
    return next((found for found in queue.get_repeatable_jobs() if found.key == key), None)


def test_a_rule_fires_when_it_is_due_and_computes_its_next_time(world: World) -> None:
    queue = jobs(world)
    assert queue.upsert_repeatable_job("tick", {"a": 1}, repeat=Repeat(Every(3600))) == "tick"
    queue.promote()
    assert queue.stats().ready == 0
    set_back(world, "tick", 5)
    due = int(world.client.zscore(KEYS.repeats, "tick"))
    queue.promote()
    lease = queue.claim(max_messages=5)
    assert [(m.payload, m.id) for m in lease.messages] == [({"a": 1}, f"tick@{due}")]
    assert (rule(queue).next_ms, rule(queue).fired) == (due + HOUR_MS, 1)


def test_several_promoters_fire_a_rule_once(world: World) -> None:
    queue = jobs(world)
    queue.upsert_repeatable_job("tick", repeat=Repeat(Every(3600)))
    set_back(world, "tick", 5)
    for racing in [world.in_background(jobs(world).promote) for _ in range(4)]:
        racing.result()
    assert len(payloads(queue)) == 1


@pytest.mark.parametrize(("missed", "fired"), [(Missed.SKIP, 0), (Missed.FIRE_ONCE, 1), (Missed.fire_all(100), 4),
                                               (Missed.fire_all(2), 2)])  # fmt: skip
def test_missed_times_are_treated_as_the_rule_defines(world: World, missed: Missed, fired: int) -> None:
    queue = jobs(world)
    queue.upsert_repeatable_job("tick", repeat=Repeat(Every(3600), missed=missed))
    set_back(world, "tick", 3 * HOUR_MS + 60_000)
    queue.promote()
    assert len(payloads(queue)) == fired
    assert rule(queue).next_ms > now_ms(world)


def test_a_rule_ends_at_its_limit(world: World) -> None:
    queue = jobs(world)
    queue.upsert_repeatable_job("tick", repeat=Repeat(Every(3600), limit=3, missed=Missed.fire_all()))
    set_back(world, "tick", HOUR_MS + 5)
    queue.promote()
    assert (len(payloads(queue)), rule(queue).fired) == (2, 2)
    set_back(world, "tick", 9 * HOUR_MS)
    queue.promote()
    assert (len(payloads(queue)), rule(queue)) == (1, None)


def test_adding_an_equal_rule_changes_nothing_and_a_different_one_replaces_it(world: World) -> None:
    queue = jobs(world)
    queue.upsert_repeatable_job("tick", 1, repeat=Repeat(Every(3600)))
    set_back(world, "tick", -77_000)
    before = rule(queue).next_ms
    queue.upsert_repeatable_job("tick", 1, repeat=Repeat(Every(3600)))
    assert rule(queue).next_ms == before
    queue.upsert_repeatable_job("tick", 2, repeat=Repeat(Every(3600)))
    assert (rule(queue).data, rule(queue).next_ms != before) == (2, True)


def test_a_rule_by_cron_fires_at_local_time(world: World) -> None:
    queue = jobs(world)
    queue.upsert_repeatable_job("nightly", repeat=Repeat(Cron("30 3 * * *", tz="Europe/Warsaw"), attempts=2))
    from zoneinfo import ZoneInfo

    at = datetime.fromtimestamp(rule(queue, "nightly").next_ms / 1000, ZoneInfo("Europe/Warsaw"))
    assert (at.hour, at.minute, at.second) == (3, 30, 0)
    set_back(world, "nightly", 5)
    queue.promote()
    assert queue.admin.peek()[0].headers["rmq-attempts"] == "2"


def test_a_promoter_wakes_for_the_next_time_of_a_rule(world: World) -> None:
    queue = jobs(world)
    queue.upsert_repeatable_job("tick", repeat=Repeat(Every(60)))
    seen = queue.promote()
    assert 0 < seen.next_ms - seen.now_ms <= 60_000
    assert world.client.lrange(KEYS.alarm, 0, -1) == [b"1"]


def test_data_that_a_rule_cannot_hold_is_refused(world: World) -> None:
    with pytest.raises(ConfigurationError, match="bytes"):
        jobs(world).upsert_repeatable_job("tick", b"x", repeat=Repeat(Every(1)))
