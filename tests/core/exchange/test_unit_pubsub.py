from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rmq_core.exchange import pubsub as pubsub_module
from rmq_core.exchange.pubsub import PubSubListener


class PubSub:
    """A subscription whose calls all succeed, or hang."""

    def __init__(self) -> None:
        self.said: list[tuple[str, bytes]] = []
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.hangs = self.dead = False

    async def subscribe(self, *channels: bytes) -> None:
        for channel in channels:
            await self._say("subscribe", channel)

    async def unsubscribe(self, channel: bytes) -> None:
        await self._say("unsubscribe", channel)

    async def _say(self, verb: str, channel: bytes) -> None:
        self.said.append((verb, channel))
        if self.hangs:
            await asyncio.Event().wait()
        self.heard.put_nowait({"type": verb, "channel": channel})

    async def ping(self) -> None:
        self.said.append(("ping", b""))
        if not self.dead:
            self.heard.put_nowait({"type": "pong", "channel": None})

    async def get_message(self, timeout: float) -> dict[str, Any] | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                return await self.heard.get()
        return None

    async def aclose(self) -> None:
        self.said.append(("close", b""))


class Client:
    def __init__(self, pubsub: PubSub) -> None:
        self.pubsub = lambda: pubsub


@pytest.fixture
def pubsub() -> PubSub:
    return PubSub()


@pytest.fixture
async def rung(pubsub: PubSub) -> list[bytes]:
    return []


@pytest.fixture
async def heard(pubsub: PubSub, rung: list[bytes]) -> AsyncIterator[PubSubListener]:
    made = PubSubListener(Client(pubsub), rung.append)
    yield made
    await made.aclose()


async def test_notifications_and_the_start_of_a_subscription_are_reported(
    heard: PubSubListener, pubsub: PubSub, rung: list[bytes]
) -> None:
    await heard.listen(b"a")
    pubsub.heard.put_nowait({"type": "message", "channel": b"a"})
    async with asyncio.timeout(300):
        while len(rung) < 2:
            await asyncio.sleep(0)
    assert rung == [b"a", b"a"]


async def test_a_cancelled_subscription_is_requested_again(heard: PubSubListener, pubsub: PubSub) -> None:
    await heard.listen(b"a")
    await heard.forget(b"a")
    await heard.listen(b"a")
    assert [verb for verb, _ in pubsub.said] == ["subscribe", "unsubscribe", "subscribe"]


async def test_a_server_that_hangs_holds_up_neither_the_end_of_a_subscription_nor_the_next(
    heard: PubSubListener, pubsub: PubSub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub_module, "_HASTE_S", 0.05)
    for channel in (b"a", b"b", b"c"):
        await heard.listen(channel)
    pubsub.hangs = True
    async with asyncio.timeout(300):
        await asyncio.gather(*(heard.forget(channel) for channel in (b"a", b"b", b"c")))
    pubsub.hangs = False
    async with asyncio.timeout(300):
        await heard.listen(b"d")


async def test_a_connection_whose_server_is_silent_is_replaced_and_all_its_channels_are_subscribed_again(
    heard: PubSubListener, pubsub: PubSub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for channel in (b"a", b"b"):
        await heard.listen(channel)
    monkeypatch.setattr(pubsub_module, "_PAUSE_S", 0.0)
    monkeypatch.setattr(pubsub_module, "_PATIENCE_S", 0.01)
    async with asyncio.timeout(300):
        while ("ping", b"") not in pubsub.said:
            await asyncio.sleep(0.01)
        assert ("close", b"") not in pubsub.said
        pubsub.dead = True
        while pubsub.said[-3:] != [("close", b""), ("subscribe", b"a"), ("subscribe", b"b")]:
            await asyncio.sleep(0)
