from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rmq_core.errors import QueueUnavailable, ScriptFailed
from rmq_core.exchange import Call, Exchange, Pipeline
from rmq_core.orchestrate import waiting as hubs
from rmq_core.orchestrate.waiting import WaitHub
from rmq_core.reports import Backlog

PATIENCE_S = 300


class Client:
    """Looks like an asyncio client without pub/sub."""

    async def execute_command(self, *_: Any) -> None:
        raise AssertionError("the hub sends commands only through its driver")


class Stock:
    """The contents of the queues of a server, by the prefix of their keys, and how often they were queried."""

    def __init__(self) -> None:
        self.replies: dict[bytes, list[Any]] = {}
        self.polls = self.writes = 0
        self.polled = asyncio.Event()
        self.failure: Exception | None = None

    def holds(self, ready: int, age_s: float = 0, due_s: float | None = None, queue: str = "q") -> None:
        due = b"" if due_s is None else b"%d" % (10_000 + due_s * 1000)
        oldest = b"%d" % (10_000 - age_s * 1000) if ready else b""
        self.replies[b"rmq:{%b}:" % queue.encode()] = [ready, oldest, 10_000, due, [], [], 0, b""]

    def driver(self, _client: Any, prefix: bytes, _retry_budget_s: float) -> Driver:
        return Driver(self)


class Driver:
    """Answers every backlog query with the contents of the stock."""

    def __init__(self, stock: Stock) -> None:
        self.stock = stock

    async def run(self, exchange: Exchange[Any]) -> Any:
        want: Any = next(exchange)
        assert isinstance(want, Pipeline)
        self.stock.writes += 1
        self.stock.polled.set()
        if self.stock.failure:
            raise self.stock.failure
        try:
            exchange.send([self._look(call) for call in want.calls])
        except StopIteration as stop:
            return stop.value
        raise AssertionError("a query that finds no expired lease needs one write")

    def _look(self, call: Call) -> Any:
        assert call.given["notify_ms"] == 15_000, "every query requests a notification"
        assert not call.slot, "queries that share a write use no call slot"
        self.stock.polls += 1
        return self.stock.replies.get(call.given["ready"].removesuffix(b"ready"), [0, b"", 10_000, b"", [], [], 0, b""])

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def stock() -> Stock:
    return Stock()


@pytest.fixture
async def hub(stock: Stock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WaitHub]:
    monkeypatch.setattr(hubs, "_PACE_S", 0)
    monkeypatch.setattr(hubs, "_TOGETHER_S", 0)
    async with asyncio.timeout(PATIENCE_S), WaitHub(Client()) as made:
        made._driver = stock.driver  # type: ignore[assignment]
        yield made


async def test_a_notification_for_another_queue_causes_no_query(hub: WaitHub, stock: Stock) -> None:
    waiting = asyncio.create_task(hub.wait("q"))
    await stock.polled.wait()
    watch = hub._watches["q", None]
    hub._notify(b"rmq:{p}:channel")
    assert not watch.notified.is_set()
    hub._notify(b"rmq:{q}:channel")
    assert watch.notified.is_set()
    waiting.cancel()


async def test_a_queue_that_cannot_be_queried_does_not_end_the_waits_on_others(hub: WaitHub, stock: Stock) -> None:
    stock.replies[b"rmq:{a}:"] = ScriptFailed("refused")  # type: ignore[assignment]
    stock.holds(2, queue="b")
    failed, found = await asyncio.gather(hub.wait("a"), hub.wait("b"), return_exceptions=True)
    assert isinstance(failed, ScriptFailed)
    assert found == Backlog(2, 0.0)
    assert "a" not in hub._watches, "no caller waits for it, so the hub forgets it"


class Clock:
    """An event loop whose time passes only during pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("quiet_s", "paces"),
    [(0.05, [0.4, 0.8, 1.0, 1.0]), (0.5, [0.2, 0.2, 0.2, 0.2])],
    ids=["frequent notifications are answered less often", "a notification after a quiet time is answered at once"],
)
async def test_queries_after_notifications_are_rate_limited(
    quiet_s: float, paces: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, slept = Clock(), []
    watch = hubs.WatchedQueue(None, None, None)  # type: ignore[arg-type]

    async def happens(event: asyncio.Event, within_s: float) -> bool:
        slept.append(within_s)
        clock.now += quiet_s if event is watch.notified else max(0.0, within_s)
        return event is watch.notified

    monkeypatch.setattr(hubs, "_happens", happens)
    monkeypatch.setattr(hubs.asyncio, "get_running_loop", lambda: clock)
    seen = []
    for _ in paces:
        await watch.pause(5)
        seen.append(watch.pace_s)
    assert seen == paces
    assert slept[1::2] == pytest.approx([pace - quiet_s for pace in paces])


async def test_a_failure_ends_all_waits_and_the_next_wait_queries_again(hub: WaitHub, stock: Stock) -> None:
    stock.failure = QueueUnavailable("gone")
    failed = await asyncio.gather(hub.wait("q"), hub.wait("q", max_age=5), return_exceptions=True)
    assert [type(error) for error in failed] == [QueueUnavailable, QueueUnavailable]
    stock.failure = None
    stock.holds(1)
    assert (await hub.wait("q")).ready == 1
