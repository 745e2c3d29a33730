"""A wire without a server: it stores what was sent, and returns the replies that a test prepared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from rmq_core.exchange.aio import AsyncDriver
from rmq_core.exchange.sync import SyncDriver

Reply = Any
SILENCE = object()


class Wire:
    """Every connection reads the next of `replies`; an exception among them is raised instead.

    After SILENCE nothing comes any more, for the connection of an asyncio client.
    """

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.sent: list[bytes] = []
        self.opened = self.closed = self.released = 0
        self.commands: list[tuple[Any, ...]] = []

    def read(self) -> Reply:
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply


class Connection:
    socket_timeout = 5.0

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def send_packed_command(self, packed: tuple[bytes, ...], **_: Any) -> None:
        self.wire.sent += packed

    def can_read(self, timeout: float) -> bool:
        return timeout > 0

    def read_response(self, **_: Any) -> Reply:
        return self.wire.read()

    def disconnect(self) -> None:
        self.wire.closed += 1


class Client:
    """The part of a redis-py client, and of its pool, that a driver uses."""

    def __init__(self, wire: Wire, max_connections: int = 100) -> None:
        self.wire, self.max_connections = wire, max_connections
        self.connection_pool = self

    def get_connection(self) -> Connection:
        self.wire.opened += 1
        return Connection(self.wire)

    def release(self, _: Connection) -> None:
        self.wire.released += 1

    def execute_command(self, *args: Any) -> Reply:
        self.wire.commands.append(args)
        return self.wire.read()


class AsyncConnection(Connection):
    async def send_packed_command(self, packed: tuple[bytes, ...], **_: Any) -> None:  # type: ignore[override]
        self.wire.sent += packed

    async def read_response(self, **_: Any) -> Reply:
        if self.wire.replies and self.wire.replies[0] is SILENCE:
            self.wire.replies.pop(0)
            await asyncio.Event().wait()
        return self.wire.read()

    async def disconnect(self, **_: Any) -> None:  # type: ignore[override]
        self.wire.closed += 1


class AsyncClient(Client):
    async def get_connection(self) -> AsyncConnection:  # type: ignore[override]
        self.wire.opened += 1
        return AsyncConnection(self.wire)

    async def release(self, _: Connection) -> None:  # type: ignore[override]
        self.wire.released += 1

    async def disconnect(self, **_: Any) -> None:
        self.wire.closed += 1

    async def execute_command(self, *args: Any) -> Reply:
        self.wire.commands.append(args)
        return self.wire.read()


class Rig:
    """A driver on a wire, run from plain code in both concurrency models."""

    def __init__(self, *, asynchronous: bool, budget_s: float = 0) -> None:
        self.wire = Wire()
        self._loop = asyncio.new_event_loop() if asynchronous else None
        self.driver: Any = (
            AsyncDriver(AsyncClient(self.wire), b"rmq:{q}:", budget_s)
            if asynchronous
            else SyncDriver(Client(self.wire), b"rmq:{q}:", budget_s)
        )

    def run(self, exchange: Generator[Any, Any, Any]) -> Any:
        return self._finish(self.driver.run, exchange)

    def ask(self, want: Any, *replies: Reply) -> Any:
        """Prepare the replies, make one request and return what the operation would get for it."""
        self.wire.replies = list(replies)

        def operation() -> Generator[Any, Any, Any]:
            return (yield want)

        return self.run(operation())

    def close(self) -> None:
        self._finish(self.driver.close)

    def end(self) -> None:
        if self._loop is not None:
            self._loop.close()

    def _finish(self, call: Callable[..., Any], *args: Any) -> Any:
        return self._loop.run_until_complete(call(*args)) if self._loop else call(*args)
