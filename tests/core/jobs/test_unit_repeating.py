from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_core import ConfigurationError
from rmq_core.jobs import Cron, Every, Missed
from rmq_core.jobs.repeating import ON_TIME_MS, schedule_of, times_to_fire

WARSAW = ZoneInfo("Europe/Warsaw")


def ms(*parts: int, tz: ZoneInfo | None = None) -> int:
    return round(datetime(*parts, tzinfo=tz or UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]


def local(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, WARSAW).strftime("%d %H:%M %Z")


def test_a_period_continues_from_its_anchor_without_drift() -> None:
    every = Every(10, anchor_ms=1003)
    assert [every.after(1003), every.after(1002), every.until(1003), every.until(25_000)] == [
        11_003,
        1003,
        1003,
        21_003,
    ]


@given(st.integers(1, 10**7), st.integers(0, 10**12), st.integers(0, 10**12))
def test_after_excludes_the_given_time_and_until_includes_it(period_ms: int, anchor: int, at: int) -> None:
    every = Every(period_ms / 1000, anchor_ms=anchor)
    assert every.until(at) <= at < every.after(at) == every.until(at) + every.period_ms
    assert (every.until(at) - anchor) % every.period_ms == 0


def test_cron_takes_five_fields_or_six_with_the_seconds_first() -> None:
    noon = ms(2026, 5, 1, 12)
    assert Cron("*/5 * * * *").after(noon) == noon + 300_000
    assert Cron("*/10 * * * * *").after(noon) == noon + 10_000
    assert Cron("0 12 * * *").until(noon) == noon


def test_cron_follows_the_clocks_of_its_time_zone() -> None:
    cron = Cron("0 9 * * *", tz="Europe/Warsaw")
    before, after = cron.after(ms(2026, 3, 27, 12)), cron.after(ms(2026, 3, 28, 12))
    assert (local(before), local(after)) == ("28 09:00 CET", "29 09:00 CEST")
    assert after - before == 23 * 3_600_000


def test_a_time_that_a_clock_change_skips_fires_right_after_it() -> None:
    fired = Cron("30 2 * * *", tz="Europe/Warsaw").after(ms(2026, 3, 28, 12, tz=WARSAW))
    assert local(fired) == "29 03:00 CEST"


def test_a_time_that_a_clock_change_repeats_fires_once() -> None:
    cron, day = Cron("30 2 * * *", tz="Europe/Warsaw"), ms(2026, 10, 24, 12, tz=WARSAW)
    first = cron.after(day)
    assert local(first).startswith("25 02:30")
    assert local(cron.after(first)).startswith("26 02:30")


@pytest.mark.parametrize("expression", ["", "x", "* * * *", "61 * * * *", "* * * * * * *", "0 0 31 2 *"])
def test_an_invalid_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(ConfigurationError, match="expression"):
        Cron(expression)


@pytest.mark.parametrize("tz", ["Mars", "", "../etc"])
def test_an_unknown_time_zone_is_refused(tz: str) -> None:
    with pytest.raises(ConfigurationError, match="tz"):
        Cron("* * * * *", tz=tz)


def test_a_period_of_zero_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="period"):
        Every(0)


@pytest.mark.parametrize(
    ("missed", "late_ms", "expected"),
    [
        (Missed.SKIP, 10, [100_000]),
        (Missed.SKIP, ON_TIME_MS, [100_000]),
        (Missed.SKIP, ON_TIME_MS + 1, []),
        (Missed.SKIP, 129_000, [220_000]),
        (Missed.FIRE_ONCE, 50_000, [100_000]),
        (Missed.FIRE_ONCE, 200_000, [280_000]),
        (Missed.fire_all(2), 200_000, [220_000, 280_000]),
        (Missed.fire_all(9), 200_000, [100_000, 160_000, 220_000, 280_000]),
    ],
)
def test_missed_times_fire_as_the_policy_says(missed: Missed, late_ms: int, expected: list[int]) -> None:
    assert times_to_fire(Every(60, anchor_ms=100_000), 100_000, 100_000 + late_ms, missed) == expected


@pytest.mark.parametrize("schedule", [Every(60), Cron("*/5 * * * *", tz="Europe/Warsaw")])
def test_a_schedule_is_restored_from_its_stored_form(schedule: Every | Cron) -> None:
    assert schedule_of({**schedule.described(), "anchor_ms": None}) == schedule
