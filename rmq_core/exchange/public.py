"""Drivers for clients that are not plain redis-py clients: fakes, stubs, and clients whose methods are wrapped.

They send one command at a time through `execute_command`, which such clients have. Their waits poll instead of
blocking, because many such clients cannot block. `sync_driver` and `async_driver` choose the driver
once, when a queue is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from redis import exceptions as errors

from rmq_core.connection.clients import is_cluster
from rmq_core.exchange import Command, Patience
from rmq_core.exchange.aio import AsyncDriver
from rmq_core.exchange.aio_pools import cancellable
from rmq_core.exchange.frames import Frame, Plan, raise_retryable
from rmq_core.exchange.sync import SyncDriver

D = TypeVar("D", bound=SyncDriver | AsyncDriver)


def sync_driver(client: Any, prefix: bytes, retry_budget_s: float) -> SyncDriver:
    """Return the fastest driver that this client allows."""
    return (SyncDriver if is_genuine(client) else PublicDriver)(client, prefix, retry_budget_s)


def async_driver(client: Any, prefix: bytes, retry_budget_s: float) -> AsyncDriver:
    """The asyncio version of `sync_driver`."""
    return (AsyncDriver if is_genuine(client) else AsyncPublicDriver)(client, prefix, retry_budget_s)


def shared(make: Callable[[Any, bytes, float], D], client: Any, prefix: bytes, retry_budget_s: float) -> D:
    """Return one driver per client and queue, shared by all users that never close it.

    So they use the same call slots. A new object for every message would leave a new slot in Redis for a minute.
    """
    try:
        drivers = vars(client).setdefault("_rmq_drivers", {})
    except TypeError:  # a client without attributes cannot keep any
        return make(client, prefix, retry_budget_s)
    key = (prefix, retry_budget_s)
    return drivers.get(key) or drivers.setdefault(key, make(client, prefix, retry_budget_s))  # type: ignore[no-any-return]


def is_genuine(client: Any) -> bool:
    """Return whether client and connections are redis-py's own, so that a driver may write to the connections."""
    pool = getattr(client, "connection_pool", None)
    if pool is None and not is_cluster(client):
        return False
    connection = getattr(pool, "connection_class", None)
    return _own(type(client), "execute_command") and (connection is None or _own(connection, "read_response"))


def _own(kind: type, method: str) -> bool:
    return bool(getattr(getattr(kind, method, None), "__module__", "").startswith("redis."))


class PublicDriver(SyncDriver):
    """Runs exchanges through the public methods of any client."""

    connected = True

    def _send_together(self, parts: Sequence[Any], patience: Patience) -> None:
        """Send nothing yet: such a client sends one request at a time."""

    def _round(self, planned: Plan) -> list[Any]:
        return self._polled(planned) if planned.block_ms else self._exchange(planned)

    def _exchange(self, planned: Plan) -> list[Any]:
        replies = [self._ask(frame) for frame in planned.frames]
        raise_retryable(replies)
        if planned.beside:
            planned.beside.take(self._ask(Frame(planned.looking)))
        return replies

    def _directly(self, command: Command, given_up: Callable[[], bool] | None = None) -> Any:
        del given_up  # the client decides how long it waits
        return self._plain(command)

    def _ask(self, frame: Frame) -> Any:
        try:
            return undecoded(self.client.execute_command(*_alone(frame)))
        except errors.NoScriptError:
            return undecoded(self.client.execute_command(*frame.whole))
        except errors.ResponseError as error:
            return error


class AsyncPublicDriver(AsyncDriver):
    """The asyncio version of PublicDriver."""

    connected = True

    async def _round(self, planned: Plan) -> list[Any]:
        return await (self._polled(planned) if planned.block_ms else self._exchange(planned))

    async def _exchange(self, planned: Plan) -> list[Any]:
        replies = [await self._ask(frame) for frame in planned.frames]
        raise_retryable(replies)
        if planned.beside:
            planned.beside.take(await self._ask(Frame(planned.looking)))
        return replies

    async def _directly(self, command: Command, given_up: Callable[[], bool] | None = None) -> Any:
        del given_up  # the client decides how long it waits
        return await self._plain(command)

    async def _ask(self, frame: Frame) -> Any:
        try:
            return undecoded(await cancellable(self.client.execute_command(*_alone(frame))))
        except errors.NoScriptError:
            return undecoded(await cancellable(self.client.execute_command(*frame.whole)))
        except errors.ResponseError as error:
            return error


def undecoded(reply: Any) -> Any:
    """Return a reply as bytes, as the operations expect it, even if the client decodes its replies."""
    if isinstance(reply, str):
        return reply.encode()
    return [undecoded(item) for item in reply] if isinstance(reply, list) else reply


_APPEND = b"""local list, more = KEYS[#KEYS], {unpack(ARGV, #ARGV - ARGV[#ARGV], #ARGV - 1)}
if #more > 0 then redis.call('RPUSH', list, unpack(more)) end
local KEYS, ARGV = {unpack(KEYS, 1, #KEYS - 1)}, {unpack(ARGV, 1, #ARGV - #more - 1)}
"""


def _alone(frame: Frame) -> tuple[Any, ...]:
    """Return one command for a frame. Such clients know no transactions: a script appends the messages too."""
    call = frame.call
    if call is None or call.appended is None:
        return frame.args
    key, messages = call.appended
    (_, _, count, *rest), more = frame.args, tuple(messages)
    at = int(count)
    return ("EVAL", _APPEND + call.script.source, at + 1, *rest[:at], key, *rest[at:], *more, len(more))
