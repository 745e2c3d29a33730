"""The blocking driver: runs operations over a redis-py client's own connections.

It keeps the connections it uses, packs commands itself and reads replies undecoded, so that a call costs less than
redis-py's. Every call is safe to resend (see `slots`), so it resends on any lost connection within the retry budget;
tenacity is entered only after a first failure.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import tenacity
from redis import exceptions as errors

from rmq_core.errors import translate
from rmq_core.exchange import Command, Exchange, Sleep, Want
from rmq_core.exchange.frames import FAILURES, NOT_RETRYABLE, RETRYABLE, Plan, answer, plan, raise_retryable
from rmq_core.exchange.slots import Slots

R = TypeVar("R")
W = TypeVar("W", Plan, Command)
_GRACE_S = 5.0


class SyncDriver:
    """Runs exchanges for one queue. Threads may share it; a forked child opens connections of its own."""

    def __init__(self, client: Any, prefix: bytes, retry_budget_s: float) -> None:
        self.client = client
        self._key = prefix
        self._slots = Slots(prefix, retry_budget_s)
        self._budget_s = retry_budget_s
        self._pid = os.getpid()
        self._idle: deque[tuple[Any, Any]] = deque()
        self._pool: Any = None

    def run(self, exchange: Exchange[R]) -> R:
        """Run an operation to its end and return its result."""
        try:
            want = next(exchange)
            while True:
                try:
                    reply = self._perform(want)
                except FAILURES as error:
                    want = exchange.throw(translate(error))
                except BaseException as error:  # noqa: BLE001  the operation decides what an interruption means
                    want = exchange.throw(error)
                else:
                    want = exchange.send(reply)
        except StopIteration as stop:
            result: R = stop.value
            return result

    def close(self) -> None:
        """Give the connections back to the client's pool."""
        while self._idle:
            pool, connection = self._idle.pop()
            if self._pid == os.getpid():
                pool.release(connection)

    def _perform(self, want: Want) -> Any:
        if isinstance(want, Sleep):
            return time.sleep(want.seconds)
        if isinstance(want, Command):
            return self._persist(self._plain, want, want)
        planned = plan(want, self._slots)
        try:
            replies = self._persist(self._round, planned, planned.again())
        finally:
            planned.release(self._slots)
        return answer(want, planned, replies)

    def _persist(self, send: Callable[[W], Any], first: W, again: W) -> Any:
        try:
            return send(first)
        except NOT_RETRYABLE:
            raise
        except RETRYABLE:
            self._recover()
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_delay(self._budget_s),
            wait=tenacity.wait_exponential(multiplier=0.02, max=1) + tenacity.wait_random(0, 0.05),
            retry=tenacity.retry_if_exception_type(RETRYABLE) & tenacity.retry_if_not_exception_type(NOT_RETRYABLE),
            after=lambda _: self._recover(),
            reraise=True,
        )
        return retrying(send, again)

    def _plain(self, command: Command) -> Any:
        return self.client.execute_command(*command.args)

    def _round(self, planned: Plan) -> list[Any]:
        replies = self._send(planned.packed(), len(planned.frames), planned.block_ms)
        if any(isinstance(reply, errors.NoScriptError) for reply in replies):
            again = planned.again()
            replies = self._send(again.packed(whole_scripts=True), len(again.frames), 0)
        raise_retryable(replies)
        return replies

    def _send(self, packed: bytes, expected: int, block_ms: int) -> list[Any]:
        pool, connection = self._connection()
        try:
            connection.send_packed_command((packed,), check_health=False)
            replies = [_read(connection, block_ms) for _ in range(expected)]
        except BaseException:
            connection.disconnect()
            self._idle.append((pool, connection))
            raise
        self._idle.append((pool, connection))
        return replies

    def _connection(self) -> tuple[Any, Any]:
        if self._pid != os.getpid():
            self._pid, self._idle, self._pool = os.getpid(), deque(), None
        try:
            return self._idle.pop()
        except IndexError:
            pool = self._pool = self._pool or self._find_pool()
            return pool, pool.get_connection()

    def _find_pool(self) -> Any:
        nodes = getattr(self.client, "nodes_manager", None)
        if nodes is None:
            return self.client.connection_pool
        node = nodes.get_node_from_slot(self.client.keyslot(self._key))
        return self.client.get_redis_connection(node).connection_pool

    def _recover(self) -> None:
        """Before a resend: forget connections to a server that is gone or no longer the primary."""
        with contextlib.suppress(IndexError):
            while True:  # one at a time: a connection that another thread has just taken must be left to it
                pool, connection = self._idle.pop()
                connection.disconnect()
                pool.release(connection)
        self._pool = None
        if hasattr(self.client, "nodes_manager"):
            with contextlib.suppress(*FAILURES):  # the next attempt says whether the cluster is back
                self.client.nodes_manager.initialize()


def _read(connection: Any, block_ms: int) -> Any:
    try:
        if block_ms:
            return connection.read_response(disable_decoding=True, timeout=block_ms / 1000 + _GRACE_S)
        return connection.read_response(disable_decoding=True)
    except errors.ResponseError as error:
        return error
