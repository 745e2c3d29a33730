"""The asyncio driver: runs operations as `sync` does, over a `redis.asyncio` client's own connections.

A cancelled call closes its connection, so that another call can never read the late reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import tenacity
from redis import exceptions as errors

from rmq_core.envelope.ids import process
from rmq_core.errors import WrongKeyType, hopeless, translate
from rmq_core.exchange import Command, Exchange, Interrupted, Patience, Sleep, Want
from rmq_core.exchange.frames import (
    FAILURES,
    NOT_RETRYABLE,
    POOL_ARGS,
    RETRYABLE,
    Plan,
    answer,
    plan,
    raise_retryable,
    unknown_script,
)
from rmq_core.exchange.resending import LOOK_S, clients_own, failed_once, naps, notice, resending
from rmq_core.exchange.slots import Slots
from rmq_core.exchange.stored_format import explained

R = TypeVar("R")
W = TypeVar("W", Plan, Command)


class PooledConnection:
    """A connection borrowed from its pool, the list that holds it while idle, and the timeout of its round trips.

    One timer serves many round trips: it is set for the first one and, when it fires, checks the one in progress. A
    timer per round trip, as `asyncio.timeout` sets, costs more than packing a command and reading its reply.
    """

    def __init__(self, pool: Any, connection: Any, home: deque[PooledConnection]) -> None:
        self.pool, self.connection, self.timeout_s, self.home = pool, connection, connection.socket_timeout, home
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

    async def release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.connection.socket_timeout = self.timeout_s
        await self.pool.release(self.connection)

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, loop = None, asyncio.get_running_loop()
        if self._task is not None and loop.time() >= self._due_s:
            self._overdue = True
            self._task.cancel()
        elif self._due_s < math.inf:
            self._timer = loop.call_at(self._due_s, self._look)


class Canceller:
    """Cancels the waiting task as soon as `given_up` returns true."""

    def __init__(self, given_up: Callable[[], bool]) -> None:
        self._given_up, self._task, self._fired = given_up, asyncio.current_task(), False
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def ended(self, error: BaseException) -> BaseException:
        """Return the error to raise: Interrupted if this object cancelled the task, else the given error."""
        if self._fired and self._task and not self._task.uncancel() and isinstance(error, asyncio.CancelledError):
            return Interrupted()
        return error

    def _look(self) -> None:
        if self._given_up() and self._task:
            self._fired = True
            self._task.cancel()
        else:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)


class AsyncDriver:
    """Runs exchanges for one queue on the event loop that calls it."""

    def __init__(self, client: Any, prefix: bytes, retry_budget_s: float) -> None:
        self.client = client
        self._key = prefix
        self._slots = Slots(prefix, retry_budget_s)
        self._patience = Patience(retry_budget_s)
        self._owner: tuple[int, Any] = (process.id, None)
        self._idle: deque[PooledConnection] = deque()
        self._pool: Any = None

    async def run(self, exchange: Exchange[R], patience: Patience | None = None) -> R:
        """Run an operation to its end and return its result; `patience` replaces the driver's own."""
        patience = patience or self._patience
        try:
            want = next(exchange)
            while True:
                try:
                    reply = await self._perform(want, patience)
                except FAILURES as error:
                    want = exchange.throw(translate(error))
                except BaseException as error:  # noqa: BLE001  the operation decides what a cancellation means
                    want = exchange.throw(error)
                else:
                    want = exchange.send(reply)
        except StopIteration as stop:
            result: R = stop.value
            return result
        except WrongKeyType as error:
            known = await self.run(explained(self._key, error), patience)
            raise known from known.__cause__

    @property
    def connected(self) -> bool:
        """Whether a connection is open: a request needs no new one, which could take long or outlive its client."""
        return any(line.connection.is_connected for line in self._idle)

    async def close(self) -> None:
        """Return the connections to the client's pool; one that another task uses is returned when its call ends."""
        idle, self._idle = self._idle, deque()
        if self._owner == (process.id, asyncio.get_running_loop()):
            await self._give_back(idle)

    async def _give_back(self, idle: deque[PooledConnection]) -> None:
        while idle:
            await self._release(idle.pop())

    async def _release(self, line: PooledConnection) -> None:
        await line.release()

    async def _perform(self, want: Want, patience: Patience) -> Any:
        if isinstance(want, Sleep):
            await self._nap(patience, want.seconds)
            if patience.over:
                raise Interrupted
            return None
        if isinstance(want, Command):
            return await self._persist(self._plain, want, want, patience)
        planned = plan(want, self._slots)
        if patience.given_up and (planned.block_ms or patience.hurried):
            planned = planned._replace(given_up=patience.given_up)
        try:
            replies = await self._persist(self._round, planned, planned.again(), patience)
        finally:
            planned.release(self._slots)
        return answer(want, planned, replies)

    async def _persist(self, send: Callable[[W], Awaitable[Any]], first: W, again: W, patience: Patience) -> Any:
        try:
            return await send(first)
        except NOT_RETRYABLE:
            raise
        except RETRYABLE as error:
            if patience.once or hopeless(error):
                raise
            await self._recover()
            if patience.budget_s is None:
                return await self._as_the_client_would(partial(send, again), error)
            if patience.over:
                raise
            notice(patience, error)
        retrying = tenacity.AsyncRetrying(sleep=partial(self._nap, patience), after=self._after, **resending(patience))
        return await retrying(send, again)

    async def _as_the_client_would(self, send: Callable[[], Awaitable[Any]], error: Exception) -> Any:
        retry = clients_own(self.client)
        if retry is None:
            raise error
        attempt = failed_once(error, send)

        async def again() -> Any:
            return await attempt()

        return await retry.call_with_retry(again, lambda _: self._recover())

    async def _nap(self, patience: Patience, seconds: float) -> None:
        for part in naps(patience, seconds):
            if patience.over:
                return
            await asyncio.sleep(part)

    async def _plain(self, command: Command) -> Any:
        return await cancellable(self.client.execute_command(*command.args))

    async def _after(self, _: tenacity.RetryCallState) -> None:
        await self._recover()

    async def _round(self, planned: Plan) -> list[Any]:
        replies = await self._send(planned.packed(), len(planned.frames), planned.block_ms, planned.given_up)
        if unknown_script(replies):
            again = planned.again()
            replies = await self._send(again.packed(whole_scripts=True), len(again.frames), 0)
        raise_retryable(replies)
        return replies

    async def _send(
        self, packed: bytes, expected: int, block_ms: int, given_up: Callable[[], bool] | None = None
    ) -> list[Any]:
        line = self._idle.pop() if self._idle and self._owner[1] is asyncio.get_running_loop() else await self._open()
        connection = line.connection
        line.start(block_ms)
        watch = Canceller(given_up) if given_up else None
        try:
            await connection.send_packed_command((packed,), check_health=False)
            replies = [await _read(connection) for _ in range(expected)]
        except BaseException as error:
            reason = line.ended(error)
            if watch:
                reason = watch.ended(reason)
            await connection.disconnect(nowait=True)
            if reason is not error:
                raise reason from error
            raise
        else:
            line.stop()
            return replies
        finally:
            if watch:
                watch.stop()
            line.home.append(line)
            if line.home is not self._idle:  # closed meanwhile
                await self._give_back(line.home)

    async def _open(self) -> PooledConnection:
        owner = (process.id, asyncio.get_running_loop())
        if self._owner != owner:
            self._owner, self._idle, self._pool = owner, deque(), None
        home = self._idle
        if home:
            return home.pop()
        pool = self._pool = self._pool or await self._find_pool()
        before = _cancelling()
        line = PooledConnection(pool, await pool.get_connection(*POOL_ARGS), home)
        if _cancelling() > before:  # see `cancellable`
            await self._release(line)
            raise asyncio.CancelledError
        return line

    async def _find_pool(self) -> Any:
        if not hasattr(self.client, "nodes_manager"):
            return self.client.connection_pool
        await cancellable(self.client.initialize())
        return _NodePool(self.client.get_node_from_key(self._key.decode()))

    async def _recover(self) -> None:
        """Drop the connections before a resend: their server may be gone or no longer the primary."""
        while self._idle:
            line = self._idle.pop()
            await line.connection.disconnect(nowait=True)
            await line.release()
        self._pool = None
        if hasattr(self.client, "nodes_manager"):
            with contextlib.suppress(*FAILURES):  # the next attempt shows whether the cluster is back
                await cancellable(self.client.nodes_manager.initialize())


class _NodePool:
    """The connections of a cluster node, offered through the two pool methods that the driver uses."""

    def __init__(self, node: Any) -> None:
        self._node = node

    async def get_connection(self) -> Any:
        connection = self._node.acquire_connection()
        await connection.connect()
        return connection

    async def release(self, connection: Any) -> None:
        release = getattr(self._node, "release", None)
        if release is None:  # redis-py 5 and 6.0 have no such method; only their own calls release
            release = self._node._free.append  # noqa: SLF001
        release(connection)


async def cancellable(answer: Awaitable[R]) -> R:
    """Await a call of redis-py, and raise CancelledError if redis-py swallowed a cancellation of this task.

    A new connection writes through asyncio.wait_for, which in Python 3.11 swallows a cancellation that arrives as it
    ends (https://github.com/python/cpython/issues/86296).
    """
    before = _cancelling()
    result = await answer
    if _cancelling() > before:
        raise asyncio.CancelledError
    return result


def _cancelling() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


async def _read(connection: Any) -> Any:
    try:
        return await connection.read_response(disable_decoding=True)
    except errors.ResponseError as error:
        return error
