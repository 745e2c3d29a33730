"""How long the asyncio driver waits for a reply: one timer for many round trips."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from rmq_core.errors import QueueUnavailable
from rmq_core.exchange import Call, Wait
from rmq_core.exchange.aio import AsyncDriver
from rmq_core.exchange.loading import Script
from tests.core.exchange.wire import SILENCE, AsyncClient, AsyncConnection, Wire

CALL = Call(Script("test", b"return 1", b"f" * 40, has_slot=True), (b"key",))
SHORT_S, PATIENCE_S = 0.05, 60


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    monkeypatch.setattr(AsyncConnection, "socket_timeout", SHORT_S)
    return Wire()


async def ask(driver: AsyncDriver, want: Any) -> Any:
    def operation() -> Generator[Any, Any, Any]:
        return (yield want)

    async with asyncio.timeout(PATIENCE_S):
        return await driver.run(operation())


def driver(wire: Wire, budget_s: float = 0) -> AsyncDriver:
    return AsyncDriver(AsyncClient(wire), b"rmq:{q}:", budget_s)


def test_a_missing_reply_closes_the_connection_and_the_call_is_resent(wire: Wire) -> None:
    wire.replies = [SILENCE, b"ok"]
    assert asyncio.run(ask(driver(wire, budget_s=5), CALL)) == b"ok"
    assert (len(wire.sent), wire.closed >= 1) == (2, True)


def test_a_server_that_stays_silent_is_unavailable(wire: Wire) -> None:
    wire.replies = [SILENCE, SILENCE]
    with pytest.raises(QueueUnavailable, match=f"no reply within {SHORT_S} s"):
        asyncio.run(ask(driver(wire), CALL))


def test_the_timer_of_an_earlier_call_does_not_end_a_later_one(wire: Wire) -> None:
    async def two_calls() -> list[Any]:
        patient = driver(wire)
        first = await ask(patient, CALL)
        await asyncio.sleep(SHORT_S * 0.8)
        slow = asyncio.create_task(ask(patient, Wait(b"wake", 300_000, CALL)))
        await asyncio.sleep(SHORT_S)
        assert not slow.done()
        slow.cancel()
        return [first, *await asyncio.gather(slow, return_exceptions=True)]

    wire.replies = [b"ok", SILENCE]
    first, second = asyncio.run(two_calls())
    assert first == b"ok"
    assert isinstance(second, asyncio.CancelledError)


def test_a_short_wait_after_a_long_one_has_its_own_end(wire: Wire) -> None:
    async def two_calls() -> None:
        patient = driver(wire)
        await ask(patient, Wait(b"wake", 60_000, CALL))
        async with asyncio.timeout(300):
            await ask(patient, CALL)

    wire.replies = [None, b"ok", SILENCE, SILENCE]
    with pytest.raises(QueueUnavailable, match="no reply"):
        asyncio.run(two_calls())


def test_a_cancellation_by_the_caller_is_raised_as_a_cancellation(wire: Wire) -> None:
    async def cancelled() -> Any:
        task = asyncio.create_task(ask(driver(wire), CALL))
        await asyncio.sleep(0)
        task.cancel()
        return await asyncio.gather(task, return_exceptions=True)

    wire.replies = [SILENCE]
    (result,) = asyncio.run(cancelled())
    assert isinstance(result, asyncio.CancelledError)
    assert wire.closed == 1
