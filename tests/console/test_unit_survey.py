"""All queues of a server are counted within a limited time, and sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rmq_console.console import AGAIN_S, CHUNK, FIRST_S, FORGOTTEN_S, Order, Survey, ordered
from rmq_core import QueueUnavailable
from rmq_core.orchestrate.attention import Trend, signs
from rmq_core.orchestrate.limits import AlertLimits, LimitBounds, StatsLimits

NAMES = [f"q{number:03}" for number in range(1000)]


class Server:
    """Queues whose counts take time to read; remembers which were read."""

    def __init__(self, cost_s: float) -> None:
        self.now, self.cost_s = 1000.0, cost_s
        self.asked: list[str] = []

    async def read_rows(self, names: Sequence[str]) -> list[dict[str, Any]]:
        self.now += self.cost_s * len(names)
        self.asked += names
        return [{"name": name, "ready": 1} for name in names]

    def survey(self) -> Survey:
        return Survey(lambda: self.now)


async def test_a_request_counts_for_a_limited_time_and_the_next_request_continues_there() -> None:
    server = Server(0.01)
    survey = server.survey()
    for round_ in (1, 2, 3, 4, 5):
        began = server.now
        await survey.renew(NAMES, server.read_rows)
        assert server.now - began <= FIRST_S + 2 * CHUNK * server.cost_s
        assert len(survey.rows(NAMES)) == pytest.approx(min(1000, 200 * round_), abs=2 * CHUNK * round_)
    assert sorted(set(server.asked)) == NAMES
    assert len(server.asked) < 1200


async def test_when_all_queues_are_counted_the_oldest_counts_are_refreshed_first() -> None:
    server = Server(0.001)
    survey = server.survey()
    await survey.renew(NAMES, server.read_rows)
    server.asked.clear()
    server.now += 60
    began = server.now
    await survey.renew(NAMES, server.read_rows)
    assert server.now - began <= AGAIN_S + 2 * CHUNK * server.cost_s
    assert server.asked == NAMES[: len(server.asked)]
    assert survey.age(NAMES) > 60
    for _ in range(4):
        await survey.renew(NAMES, server.read_rows)
    assert survey.age(NAMES) < 60


async def test_deleted_queues_and_outdated_numbers_are_dropped() -> None:
    server = Server(0.01)
    survey = server.survey()
    await survey.renew(NAMES[:10], server.read_rows)
    await survey.renew(NAMES[:5], server.read_rows)
    assert [row["name"] for row in survey.rows(NAMES)] == NAMES[:5]
    server.now += FORGOTTEN_S
    server.cost_s = FIRST_S
    await survey.renew(NAMES, server.read_rows)
    assert len(survey.rows(NAMES)) == CHUNK


async def test_an_unreachable_server_ends_the_count_with_its_own_error() -> None:
    async def away(_: Sequence[str]) -> list[dict[str, Any]]:
        raise QueueUnavailable("Redis did not answer")

    with pytest.raises(QueueUnavailable):
        await Survey().renew(NAMES, away)


def row(name: str, **numbers: Any) -> dict[str, Any]:
    counted = {"name": name, "ready": 0, "leased": 0, "delayed": 0, "dead": 0, "isolated": 0, **numbers}
    return signed(counted)


def signed(row: dict[str, Any]) -> dict[str, Any]:
    limits = AlertLimits(stats=StatsLimits(oldest_age=LimitBounds(warn=10_000), lease_age=LimitBounds(warn=900)))
    return {**row, "signs": signs(row, Trend(dead=row.get("dead", 0)), limits)}


ROWS = [
    row("a", ready=5, oldest_age=10.0),
    row("b", ready=9, oldest_age=3700.0),
    row("c", paused=True, ready=1, oldest_age=9000.0),
    row("d", late=True, leased=4),
    row("e", dead=2, oldest_age=70.0),
    row("f", dead=1, late=True, paused=True, oldest_age=400.0),
    signed({"name": "g", "error": "another type"}),
    row("h", ready=5, oldest_age=30.0, delayed=3),
]


@pytest.mark.parametrize(
    ("by", "down", "expected"),
    [
        ("attention", True, "gefdcbah"),
        ("name", False, "abcdefgh"),
        ("name", True, "hgfedcba"),
        ("ready", True, "bahcdefg"),
        ("ready", False, "defcahbg"),
        ("oldest", True, "cbfehadg"),
        ("leased", True, "dabcefhg"),
        ("delayed", True, "habcdefg"),
        ("dead", True, "efabcdhg"),
    ],
)
def test_queues_are_sorted_in_each_order(by: Order, *, down: bool, expected: str) -> None:
    assert "".join(each["name"] for each in ordered(ROWS, by, down=down)) == expected


def test_a_queue_with_leased_messages_alone_comes_before_idle_ones_and_first_when_its_lease_is_old() -> None:
    idle = [row(f"idle {number:03}", oldest_age=None) for number in range(300)]
    young, held = row("z young", leased=3, oldest_lease=59.0), row("z held", leased=94, oldest_lease=1000.0)
    found = [each["name"] for each in ordered([*idle, young, held], "attention", down=True)]
    assert found[:3] == ["z held", "z young", "idle 000"]


IDLE = row("idle", ready=1, oldest_age=12_000.0)
PAUSED = row("paused", ready=50, oldest_age=200.0, paused=True)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((IDLE, PAUSED), "paused idle"),
        ((IDLE, {**PAUSED, "ready": 9}), "idle paused"),  # as many, within a power of ten: the older one
        ((IDLE, row("paused", paused=True)), "idle paused"),
        ((PAUSED, row("held", leased=94, oldest_lease=1_000.0)), "held paused"),
        ((row("held", leased=9, ready=5_000, oldest_lease=1_000.0), PAUSED), "held paused"),
        ((row("busy", leased=9_999, ready=5, oldest_age=700.0), PAUSED), "paused busy"),
        ((row("late", late=True), {**PAUSED, "ready": 5_000}), "late paused"),
        ((row("suspects", isolated=9, ready=9), row("paused", paused=True)), "paused suspects"),
    ],
)
def test_where_work_does_not_go_on_more_messages_outweigh_older_ones(rows: Any, expected: str) -> None:
    for each in (rows, rows[::-1]):
        assert " ".join(row["name"] for row in ordered(each, "attention", down=True)) == expected


def test_the_queue_with_more_dead_letters_comes_first() -> None:
    few, many = row("few", dead=6, oldest_age=9000.0), row("many", dead=40_000)
    assert [each["name"] for each in ordered([few, many], "attention", down=True)] == ["many", "few"]
