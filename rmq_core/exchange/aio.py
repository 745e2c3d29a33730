"""The asyncio driver: the twin of `sync`, on a `redis.asyncio` client's own connections.

A cancelled call closes its connection, so that its late reply can never be read by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import tenacity
from redis import exceptions as errors

from rmq_core.errors import translate
from rmq_core.exchange import Command, Exchange, Sleep, Want
from rmq_core.exchange.frames import FAILURES, NOT_RETRYABLE, RETRYABLE, Plan, answer, plan, raise_retryable
from rmq_core.exchange.slots import Slots

R = TypeVar("R")
W = TypeVar("W", Plan, Command)


class Line(NamedTuple):
    """A connection on loan from its pool, and the timeout it came with."""

    pool: Any
    connection: Any
    timeout_s: float | None

    async def release(self) -> None:
        self.connection.socket_timeout = self.timeout_s
        await self.pool.release(self.connection)


class AsyncDriver:
    """Runs exchanges for one queue on the event loop that calls it."""

    def __init__(self, client: Any, prefix: bytes, retry_budget_s: float) -> None:
        self.client = client
        self._key = prefix
        self._slots = Slots(prefix, retry_budget_s)
        self._budget_s = retry_budget_s
        self._owner: tuple[int, Any] = (os.getpid(), None)
        self._idle: deque[Line] = deque()
        self._pool: Any = None

    async def run(self, exchange: Exchange[R]) -> R:
        """Run an operation to its end and return its result."""
        try:
            want = next(exchange)
            while True:
                try:
                    reply = await self._perform(want)
                except FAILURES as error:
                    want = exchange.throw(translate(error))
                except BaseException as error:  # noqa: BLE001  the operation decides what a cancellation means
                    want = exchange.throw(error)
                else:
                    want = exchange.send(reply)
        except StopIteration as stop:
            result: R = stop.value
            return result

    async def close(self) -> None:
        """Give the connections back to the client's pool."""
        while self._idle:
            line = self._idle.pop()
            if self._owner == (os.getpid(), asyncio.get_running_loop()):
                await line.release()

    async def _perform(self, want: Want) -> Any:
        if isinstance(want, Sleep):
            return await asyncio.sleep(want.seconds)
        if isinstance(want, Command):
            return await self._persist(self._plain, want, want)
        planned = plan(want, self._slots)
        try:
            replies = await self._persist(self._round, planned, planned.again())
        finally:
            planned.release(self._slots)
        return answer(want, planned, replies)

    async def _persist(self, send: Callable[[W], Awaitable[Any]], first: W, again: W) -> Any:
        try:
            return await send(first)
        except NOT_RETRYABLE:
            raise
        except RETRYABLE:
            await self._recover()
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_delay(self._budget_s),
            wait=tenacity.wait_exponential(multiplier=0.02, max=1) + tenacity.wait_random(0, 0.05),
            retry=tenacity.retry_if_exception_type(RETRYABLE) & tenacity.retry_if_not_exception_type(NOT_RETRYABLE),
            after=self._after,
            reraise=True,
        )
        return await retrying(send, again)

    async def _plain(self, command: Command) -> Any:
        return await self.client.execute_command(*command.args)

    async def _after(self, _: tenacity.RetryCallState) -> None:
        await self._recover()

    async def _round(self, planned: Plan) -> list[Any]:
        replies = await self._send(planned.packed(), len(planned.frames), planned.block_ms)
        if any(isinstance(reply, errors.NoScriptError) for reply in replies):
            again = planned.again()
            replies = await self._send(again.packed(whole_scripts=True), len(again.frames), 0)
        raise_retryable(replies)
        return replies

    async def _send(self, packed: bytes, expected: int, block_ms: int) -> list[Any]:
        line = self._idle.pop() if self._idle and self._owner[1] is asyncio.get_running_loop() else await self._open()
        connection, patience_s = line.connection, line.timeout_s
        if block_ms and patience_s is not None:
            patience_s += block_ms / 1000
        try:
            async with asyncio.timeout(patience_s):
                await connection.send_packed_command((packed,), check_health=False)
                return [await _read(connection) for _ in range(expected)]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            self._idle.append(line)

    async def _open(self) -> Line:
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._owner != owner:
            self._owner, self._idle, self._pool = owner, deque(), None
        if self._idle:
            return self._idle.pop()
        pool = self._pool = self._pool or await self._find_pool()
        connection = await pool.get_connection()
        line = Line(pool, connection, connection.socket_timeout)
        connection.socket_timeout = None  # one timeout for a round trip instead of a task for each write
        return line

    async def _find_pool(self) -> Any:
        if not hasattr(self.client, "nodes_manager"):
            return self.client.connection_pool
        await self.client.initialize()
        return _NodePool(self.client.get_node_from_key(self._key.decode()))

    async def _recover(self) -> None:
        """Before a resend: forget connections to a server that is gone or no longer the primary."""
        while self._idle:
            line = self._idle.pop()
            await line.connection.disconnect(nowait=True)
            await line.release()
        self._pool = None
        if hasattr(self.client, "nodes_manager"):
            with contextlib.suppress(*FAILURES):  # the next attempt says whether the cluster is back
                await self.client.nodes_manager.initialize()


class _NodePool:
    """A cluster node's connections behind the two verbs of a pool."""

    def __init__(self, node: Any) -> None:
        self._node = node

    async def get_connection(self) -> Any:
        connection = self._node.acquire_connection()
        await connection.connect()
        return connection

    async def release(self, connection: Any) -> None:
        self._node.release(connection)


async def _read(connection: Any) -> Any:
    try:
        return await connection.read_response(disable_decoding=True)
    except errors.ResponseError as error:
        return error
