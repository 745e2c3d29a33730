"""The share of a pool of an asyncio client. See `pools`; the event loop that uses a share owns its connections."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from redis import exceptions as errors

from rmq_core.envelope.codec import process
from rmq_core.exchange.frames import FAILURES, POOL_ARGS, is_full
from rmq_core.exchange.pools import LOOK_AGAIN_S, ON_POOL, UNLIMITED, PoolShare

R = TypeVar("R")
UNUSED_S = 0.1
"""How long connections beyond those that a share keeps stay there unused."""


class PooledConnection:
    """A connection borrowed from its pool, and the timeout of its round trips.

    One timer serves many round trips: it is set for the first one and, when it fires, checks the one in progress. A
    timer per round trip, as `asyncio.timeout` sets, costs more than packing a command and reading its reply.
    """

    def __init__(self, connection: Any) -> None:
        self.connection, self.timeout_s = connection, connection.socket_timeout
        connection.socket_timeout = None
        self._due_s = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._overdue = False

    def start(self, block_ms: int) -> None:
        """Start the timeout of a reply that this task waits for; the server may block for `block_ms` before it."""
        if self.timeout_s is not None:
            task = self._task = asyncio.current_task()
            self._cancelling = task.cancelling() if task else 0
            self._due_s = asyncio.get_running_loop().time() + self.timeout_s + block_ms / 1000
            if self._timer is None or self._timer.when() > self._due_s:
                self._look()

    def stop(self) -> None:
        """End the timeout: no reply is expected any more."""
        self._due_s, self._task = math.inf, None

    def ended(self, error: BaseException) -> BaseException:
        """Return the error to raise: a TimeoutError if the timer cancelled the task, else the given error."""
        task, overdue, self._overdue = self._task, self._overdue, False
        self.stop()
        if task and overdue and task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            return errors.TimeoutError(f"no reply within {self.timeout_s} s")
        return error

    def leave(self) -> Any:
        """Return the connection as the pool had it."""
        if self._timer is not None:
            self._timer.cancel()
        self.connection.socket_timeout = self.timeout_s
        return self.connection

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, loop = None, asyncio.get_running_loop()
        if self._task is not None and loop.time() >= self._due_s:
            self._overdue = True
            self._task.cancel()
        elif self._due_s < math.inf:
            self._timer = loop.call_at(self._due_s, self._look)


class AsyncShare(PoolShare):
    """The share of an event loop in the pool of an asyncio client; `idle` has PooledConnections."""

    def begin(self) -> None:
        super().begin()
        self.loop = asyncio.get_running_loop()
        self.looking, self.turn, self._given = asyncio.Lock(), asyncio.Lock(), asyncio.Event()
        self.burst = self.most // 2 if self.kept else 0
        self.unused = 0
        """The least number of idle connections since the last look: so many are not needed."""
        self._timer: asyncio.TimerHandle | None = None
        self._returning: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether the next call probably finds an open connection."""
        return any(one.connection.is_connected for one in self.idle) or any(one.is_connected for one in self.returned)

    @property
    def current(self) -> bool:
        """Whether this is the event loop, and the process, that the connections belong to."""
        return self.loop is asyncio.get_running_loop() and self.pid == process.id

    def keep(self, pool: Any, taken: PooledConnection) -> bool:
        """Take a connection back after a call. Return False if `give_back` has to be called.

        Many tasks that call at once would take and return as many connections again and again. So up to half of the
        pool stays here, for as long as calls use it.
        """
        idle, unused = self.idle, len(self.idle)
        idle.append(taken)
        self.unused = min(self.unused, unused)
        if unused < self.kept:
            return not self.turn.locked()
        if self._timer is None and self.kept:
            self._timer = self.loop.call_later(UNUSED_S, self._look, pool)
        return unused < self.burst and not self.turn.locked()

    def _look(self, pool: Any) -> None:
        """Return the connections that no call has used since the last look, all but `kept`."""
        size = len(self.idle)
        left = max(size - self.unused, self.kept)
        self._timer, self.unused = None, size
        if left < size:
            self._returning = self.loop.create_task(self.give_back(pool, left))
        if left > self.kept:
            self._timer = self.loop.call_later(UNUSED_S, self._look, pool)

    async def give_back(self, pool: Any, kept: int = 0) -> None:
        """Return idle connections to the pool, all but `kept`; all of them while calls stand in a line for one."""
        while len(self.idle) > (0 if self.turn.locked() else kept):
            await self._release(pool, self.idle.pop().leave())
        self._given.set()

    async def drop(self, pool: Any) -> None:
        """Close the idle connections and return them: their server may be gone or no longer the primary."""
        while self.idle:
            connection = self.idle.pop().leave()
            await connection.disconnect(nowait=True)
            await self._release(pool, connection)

    async def abandon(self, pool: Any) -> None:
        """Return the connections of a closed event loop; close all in the pool that another loop cannot use either."""
        if self.pid == process.id:
            while self.idle:
                await self._release(pool, self.idle.pop().leave())
            with suppress(RuntimeError):  # redis-py closes them, and raises because their loop is closed
                await pool.disconnect(inuse_connections=False)

    async def _release(self, pool: Any, connection: Any) -> None:
        self.returned.append(connection)
        try:
            await pool.release(connection)
        except asyncio.CancelledError:  # a shield for every release would cost more than the release
            with suppress(KeyError):  # it was complete
                await asyncio.shield(pool.release(connection))
            raise

    async def take(self, pool: Any) -> PooledConnection:
        """Return a connection. Raises what redis-py raises, and MaxConnectionsError when the pool stays full.

        While it is full, calls stand in a line, and the first one asks again.
        """
        began = time.monotonic()
        if not self.turn.locked() and (found := await self._find(pool)):
            return found
        self.check_patience(began)
        async with self.turn:
            self._given.clear()
            while not (found := await self._find(pool)):
                self.check_patience(max(began, self.served))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN_S):
                        await self._given.wait()
                self._given.clear()
            self.served = time.monotonic()
            return found

    async def _find(self, pool: Any) -> PooledConnection | None:
        """Return a connection, or None if the pool is full."""
        if self.idle:
            return self.idle.pop()  # type: ignore[no-any-return]
        before = cancelling()
        try:
            connection = await pool.get_connection(*POOL_ARGS)
        except FAILURES as error:
            if is_full(error):
                return None
            raise
        if cancelling() > before:  # see `cancellable`
            await self._release(pool, connection)
            raise asyncio.CancelledError
        return PooledConnection(connection)


class NodePool:
    """The connections of a node of an asyncio cluster client, offered through the pool methods that a share uses."""

    def __init__(self, node: Any) -> None:
        self.node, self.max_connections = node, getattr(node, "max_connections", UNLIMITED)

    async def get_connection(self, *_: Any) -> Any:
        connection = self.node.acquire_connection()
        try:
            await connection.connect()
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: Any) -> None:
        release = getattr(self.node, "release", None)
        if release is None:  # redis-py 5 and 6.0 have no such method; only their own calls release
            release = self.node._free.append  # noqa: SLF001  what its `release` does in older versions
        release(connection)

    async def disconnect(self, *, inuse_connections: bool) -> None:
        """Close the connections that no call uses, as `inuse_connections=False` asks."""
        del inuse_connections
        free = [*self.node._free]  # noqa: SLF001  its public `disconnect` closes those in use too
        await asyncio.gather(*(connection.disconnect() for connection in free), return_exceptions=True)


async def loop_share(pool: Any) -> AsyncShare:
    """Return the share of the running event loop in a pool. Give back what an event loop left that is closed."""
    loop, shares = asyncio.get_running_loop(), vars(pool).setdefault(ON_POOL, {})
    found: AsyncShare | None = shares.get(loop)
    if found is None or not found.current or found.pool_id != id(pool):
        found = shares[loop] = AsyncShare(pool)
        async with found.turn:  # no other task may get a connection before
            for closed in [each for each in shares if each.is_closed()]:
                await shares.pop(closed).abandon(pool)
    return found


async def cancellable(answer: Awaitable[R]) -> R:
    """Await a call of redis-py, and raise CancelledError if redis-py swallowed a cancellation of this task.

    A new connection writes through asyncio.wait_for, which in Python 3.11 swallows a cancellation that arrives as it
    ends (https://github.com/python/cpython/issues/86296).
    """
    before = cancelling()
    result = await answer
    if cancelling() > before:
        raise asyncio.CancelledError
    return result


def cancelling() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0
