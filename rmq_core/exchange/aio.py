"""The asyncio driver: runs operations as `sync` does, over a `redis.asyncio` client's own connections.

A cancelled call closes its connection, so that another call can never read the late reply.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import tenacity
from redis import exceptions as errors

from rmq_core.connection.clients import is_cluster
from rmq_core.errors import QueueUnavailable, WrongKeyType, hopeless, translate
from rmq_core.exchange import (
    Across,
    At,
    Beside,
    Command,
    Exchange,
    Interrupted,
    Patience,
    Pipeline,
    Sleep,
    Want,
    resending,
)
from rmq_core.exchange.aio_pools import AsyncShare, NodePool, cancellable, loop_share
from rmq_core.exchange.frames import (
    FAILURES,
    NOT_RETRYABLE,
    RETRYABLE,
    Frame,
    Plan,
    answer,
    asked_elsewhere,
    asked_last,
    asking,
    at_once,
    is_healthy,
    plan,
    raise_retryable,
    raised,
    unknown_script,
)
from rmq_core.exchange.loading import LAYOUTS
from rmq_core.exchange.pools import ON_POOL
from rmq_core.exchange.scripts import RESENDS, Slots, explained, laid_out

R = TypeVar("R")
W = TypeVar("W", Plan, Command)
_HURRY_S = 2.0
_WITHOUT_A_PLAN = (At, Across, Sleep, Command)


class Canceller:
    """Cancels the waiting task as soon as `given_up` returns true."""

    def __init__(self, given_up: Callable[[], bool]) -> None:
        self._given_up, self._task, self._fired = given_up, asyncio.current_task(), False
        self._timer = asyncio.get_running_loop().call_later(resending.LOOK_S, self._look)

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
            self._timer = asyncio.get_running_loop().call_later(resending.LOOK_S, self._look)


class AsyncDriver:
    """Runs exchanges for one queue on the event loop that calls it. beside, node: see `SyncDriver`."""

    beside: Beside | None = None
    layouts: tuple[str, ...] = tuple(LAYOUTS)
    node: Any = None

    def __init__(self, client: Any, prefix: bytes, retry_budget_s: float) -> None:
        self.client = client
        self._key = prefix
        self._slots = Slots(prefix, retry_budget_s)
        self._patience = Patience(retry_budget_s)
        self._held: tuple[Any, AsyncShare] | None = None
        self._asked: Any = None
        self._stale = False
        self._budget_s = retry_budget_s
        self._shards: dict[bytes, AsyncDriver] = {}

    async def run(self, exchange: Exchange[R], patience: Patience | None = None) -> R:
        """Run an operation to its end and return its result; `patience` replaces the driver's own."""
        patience, laid = patience or self._patience, 0
        try:
            want = next(exchange)
            while True:
                try:
                    reply = await self.perform(want, patience)
                except FAILURES as error:
                    failure = translate(error)
                    again = None
                    if isinstance(failure, WrongKeyType) and laid < RESENDS:
                        again, laid = await self.run(laid_out(want), patience), laid + 1
                    want = again or exchange.throw(failure)
                except BaseException as error:  # the operation decides what a cancellation means
                    want = exchange.throw(error)
                else:
                    want, laid = exchange.send(reply), 0
        except StopIteration as stop:
            result: R = stop.value
            return result
        except WrongKeyType as error:
            known = await self.run(explained(self._key, error, self.layouts), patience)
            raise known from known.__cause__

    @property
    def connected(self) -> bool:
        """Whether a connection is open: a request needs no new one, which could take long or outlive its client."""
        return self._held is not None and self._held[1].connected

    async def close(self) -> None:
        """Return the connections that no call uses to the client's pool."""
        for driver in (self, *self._shards.values()):
            await driver.give_back()

    async def give_back(self) -> None:
        """Return the idle connections that this driver uses to their pool."""
        if self._held is not None and self._held[1].current:
            pool, share = self._held
            await share.give_back(pool)

    async def perform(self, want: Want, patience: Patience) -> Any:
        """Return the reply to a request."""
        if isinstance(want, _WITHOUT_A_PLAN):
            return await self._otherwise(want, patience)
        planned, beside = plan(want, self._slots), self.beside
        if beside is not None and (
            monotonic() >= beside.look_at or planned.name in beside.unrecorded or planned.block_ms
        ):
            planned = planned._replace(beside=beside)
        if patience.given_up and (planned.block_ms or patience.hurried):
            planned = planned._replace(given_up=patience.given_up)
        try:
            replies = await self._persist(self._round, planned, planned.again(), patience)
        finally:
            planned.release(self._slots)
        return answer(want, planned, replies)

    async def _otherwise(self, want: Any, patience: Patience) -> Any:
        """Return the reply to a request that is not sent as a plan."""
        if isinstance(want, At):
            return await self._shard(want.prefix).perform(want.want, patience)
        if isinstance(want, Across):
            return await asyncio.gather(*(self._part(part, patience, hurry=want.hurry) for part in want.parts))
        if isinstance(want, Sleep):
            await self._nap(patience, want.seconds)
            if patience.over:
                raise Interrupted
            return None
        if want.aside and is_cluster(self.client):
            return await self._aside(want)
        return await self._persist(self._plain, want, want, patience)

    async def _part(self, part: At, patience: Patience, *, hurry: bool) -> Any:
        """Return the answer of a shard to its part of `Across`, or its error."""
        shard = self._shard(part.prefix)
        if not hurry:
            return await shard.answer(part.want, patience)
        try:
            async with asyncio.timeout(_HURRY_S):  # a node that hangs accepts connections, and then says nothing
                return await shard.answer(part.want, resending.aside())
        except TimeoutError:
            return QueueUnavailable(f"the node did not answer within {_HURRY_S:.0f} s")

    def _shard(self, prefix: bytes) -> AsyncDriver:
        """Return the driver of a shard of this queue."""
        if prefix == self._key:
            return self
        return self._shards.get(prefix) or self._shards.setdefault(
            prefix, type(self)(self.client, prefix, self._budget_s)
        )

    async def answer(self, want: Want, patience: Patience) -> Any:
        """Return the answer to one of several requests, or its error."""
        try:
            if isinstance(want, Command):  # by a connection of the driver, which can give up, not by the client
                return (await self.perform(Pipeline((want,)), patience))[0]
            return await self.perform(want, patience)
        except (*FAILURES, Interrupted) as error:
            return resending.failed(error)

    async def _persist(self, send: Callable[[W], Awaitable[Any]], first: W, again: W, patience: Patience) -> Any:
        try:
            return await send(first)
        except NOT_RETRYABLE:
            raise
        except RETRYABLE as error:
            await self._drop(error)
            if patience.once or hopeless(error):
                raise
            if patience.budget_s is None:
                return await self._as_the_client_would(partial(send, again), error)
            if patience.over:
                raise
            resending.notice(patience, error)
        retrying = tenacity.AsyncRetrying(
            sleep=partial(self._nap, patience), after=self._after, **resending.terms(patience)
        )
        return await retrying(send, again)

    async def _as_the_client_would(self, send: Callable[[], Awaitable[Any]], error: Exception) -> Any:
        retry = resending.clients_own(self.client)
        if retry is None:
            raise error
        attempt = resending.failed_once(error, send)

        async def again() -> Any:
            return await attempt()

        return await retry.call_with_retry(again, self._drop)

    async def _nap(self, patience: Patience, seconds: float) -> None:
        for part in resending.naps(patience, seconds):
            if patience.over:
                return
            await asyncio.sleep(part)

    async def _plain(self, command: Command) -> Any:
        return await cancellable(self.client.execute_command(*command.args))

    async def _aside(self, command: Command) -> Any:
        """Send a command to the node of its key, without the client's own retries; return None if it fails."""
        if resending.rests(self.client):
            return None
        driver, patience = type(self)(self.client, command.key, 0), resending.aside()
        send = partial(driver._directly, given_up=patience.given_up)
        try:
            return await driver._persist(send, command, command, patience)
        except NOT_RETRYABLE:
            raise
        except (*RETRYABLE, Interrupted):
            await driver._read_again()
            return resending.rest(self.client)
        finally:
            await driver.close()

    async def _directly(self, command: Command, given_up: Callable[[], bool] | None = None) -> Any:
        """Send a command over a connection of this driver."""
        (reply,) = await self._exchange(Plan([Frame(command.args)], given_up=given_up))
        return raised(reply)

    async def _after(self, state: tenacity.RetryCallState) -> None:
        await self._drop(resending.failure_of(state))

    async def _round(self, planned: Plan) -> list[Any]:
        if not planned.block_ms:
            return await self._exchange(planned)
        share = (await self._hold())[1]
        if not share.blocking.acquire(blocking=False):
            return await self._polled(planned, share)
        try:
            return await self._exchange(planned)
        finally:
            share.blocking.release()

    async def _polled(self, planned: Plan, share: AsyncShare | None = None) -> list[Any]:
        """Do what a request does that blocks in Redis, with requests that do not block."""
        reply, look = None, Plan([at_once(planned.frames[0])])
        for pause_s in resending.looks(planned, share.polling if share else deque()):
            async with share.looking if share else contextlib.nullcontext():
                (reply,) = await self._exchange(look)
            if reply not in resending.NOTHING:
                break
            await asyncio.sleep(pause_s)
        return [reply] if planned.alone else await self._exchange(planned.again())

    async def _exchange(self, planned: Plan) -> list[Any]:
        replies = await self._send(planned.packed(), planned.expected, planned.block_ms, planned.given_up)
        if unknown_script(replies):
            planned = planned.again()
            replies = await self._send(planned.packed(whole_scripts=True), planned.expected, 0)
        try:
            raise_retryable(replies)
        except errors.AskError as error:
            await self._follow(error, planned, replies)
        return planned.outcomes(replies)

    async def _follow(self, error: errors.AskError, planned: Plan, replies: list[Any]) -> None:
        """Replace the refusals of keys that have moved by the replies of the node to which their slot is moving."""
        asked = asked_elsewhere(planned, replies)
        node = self.client.get_node(*self.client.nodes_manager.remap_host_port(error.host, error.port))
        if node is None:  # the client does not know it yet
            raise error
        there = type(self)(self.client, self._key, 0)
        there.node = node
        answers = (await there._send(asking(asked.values()), 2 * len(asked), 0, planned.given_up))[1::2]
        raise_retryable(answers)
        for at, reply in zip(asked, answers, strict=True):
            replies[at] = reply

    async def _send(
        self, packed: bytes, expected: int, block_ms: int, given_up: Callable[[], bool] | None = None
    ) -> list[Any]:
        held = self._held
        pool, share = held if held and held[1].current else await self._hold()
        line = share.idle.pop() if share.idle else await share.take(pool)
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
            if not share.keep(pool, line):
                await share.give_back(pool, share.kept)

    async def _hold(self) -> tuple[Any, AsyncShare]:
        """Find the pool of the server that has the queue, and the share that this event loop has of it."""
        if self._held is None or not self._held[1].current:
            pool = await self._find_pool()
            self._held = pool, await loop_share(pool)
        return self._held

    async def _find_pool(self) -> Any:
        if not is_cluster(self.client):
            return self.client.connection_pool
        await cancellable(self.client.initialize())
        await self._read_again()
        node = self._asked = self.node or self.client.get_node_from_key(self._key.decode())
        pools = vars(self.client).setdefault(ON_POOL, {})
        found = pools.get(node)
        if found is None or found.node is not node:  # redis-py replaces nodes when it reads the cluster again
            found = pools[node] = NodePool(node)
        return found

    async def _read_again(self) -> None:
        """Read a cluster again, after an error."""
        if self._stale:
            with contextlib.suppress(*FAILURES):  # the next attempt shows whether the cluster is back
                await cancellable(self.client.nodes_manager.initialize(**asked_last(self._asked)))
            self._stale = False

    async def _drop(self, error: BaseException) -> None:
        """Close the idle connections, and let the next attempt read the cluster again, see `SyncDriver`."""
        if is_healthy(error):
            return
        held, self._held, self._stale = self._held, None, True
        if held is not None and held[1].current:
            pool, share = held
            await share.drop(pool)


async def _read(connection: Any) -> Any:
    try:
        return await connection.read_response(disable_decoding=True)
    except errors.ResponseError as error:
        return error
