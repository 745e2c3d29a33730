"""A stream, its consumers and their databases for one concurrency model, with blocking methods."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from rmq_core.streams import QueueConfig, QueueMessage
from tests.core.worlds import World

STREAM, GROUP = "orders", "billing"
BRIEF_MS = 50
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
Handler = Callable[[QueueMessage, Any], object]


class Stage:
    """The stream `orders`, read by the group `billing`."""

    def __init__(self, world: World) -> None:
        self.world, self.client = world, world.client
        self._names = itertools.count()

    def config(self, **settings: Any) -> QueueConfig:
        about = {"consumer_name": f"c{next(self._names)}", "block_ms": BRIEF_MS, **settings}
        return QueueConfig(STREAM, GROUP, **about)

    def queue(self, *, at: str | None = None, on_event: Any = None, **settings: Any) -> Any:
        return self.world.make("StreamQueue", self.config(**settings), settings=at, on_event=on_event)

    def consumer(self, *, at: str | None = None, on_event: Any = None, **settings: Any) -> Any:
        return self.world.make("QueueConsumer", self.config(**settings), settings=at, on_event=on_event)

    def handler(self, handle: Handler) -> Any:
        """Return a handler for this concurrency model."""
        if self.world.flavour == "sync":
            return handle

        async def asynchronous(message: QueueMessage, tx: Any) -> None:
            await asyncio.to_thread(handle, message, tx)  # the loop keeps running for a handler that calls back

        return asynchronous

    def database(self, begin: Callable[[], Any]) -> Any:
        """Return a source of transactions of plain databases for this concurrency model."""
        return Plain(begin) if self.world.flavour == "sync" else Asynchronous(begin)

    def pending(self) -> list[str]:
        """Return the ids of pending entries."""
        found = self.client.xpending_range(STREAM, GROUP, "-", "+", 1000)
        return [entry["message_id"].decode() for entry in found]

    def deliveries(self) -> list[int]:
        return [entry["times_delivered"] for entry in self.client.xpending_range(STREAM, GROUP, "-", "+", 1000)]

    def let_pass(self, ms: int = HOUR_MS) -> None:
        """Move the delivery times of all pending entries into the past."""
        for entry in self.client.xpending_range(STREAM, GROUP, "-", "+", 1000):
            idle_ms = entry["time_since_delivered"] + ms
            self.client.xclaim(
                STREAM, GROUP, entry["consumer"], 0, [entry["message_id"]], idle=idle_ms, justid=True
            )  # fmt: skip

    def forget_commands(self) -> None:
        self.client.config_resetstat()

    def commands(self) -> Counter[str]:
        """Return how often the server ran each command since `forget_commands`, without those of this class."""
        found = self.client.info("commandstats")
        calls = Counter({name.removeprefix("cmdstat_"): stat["calls"] for name, stat in found.items()})
        own = {"info", "config|resetstat", "config", "hello", "client|setinfo", "client", "select", "xpending", "auth"}
        return Counter({name: count for name, count in calls.items() if name not in own})


class Plain:
    def __init__(self, begin: Callable[[], Any]) -> None:
        self.begin = begin


class Asynchronous:
    """A plain database with asyncio methods."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin

    async def begin(self) -> AsyncTx:
        return AsyncTx(self._begin())


class AsyncTx:
    def __init__(self, tx: Any) -> None:
        self.tx = tx

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tx, name)

    async def commit(self) -> None:
        self.tx.commit()

    async def rollback(self) -> None:
        self.tx.rollback()


class Journal:
    """A database that records its calls; `fails` names the steps that raise."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.steps: list[str] = []

    def begin(self) -> Journal:
        self.note("begin")
        return self

    def commit(self) -> None:
        self.note("commit")

    def rollback(self) -> None:
        self.note("rollback")

    def note(self, step: str) -> None:
        self.steps.append(step)
        if step in self.fails:
            raise RuntimeError(f"{step} failed")
