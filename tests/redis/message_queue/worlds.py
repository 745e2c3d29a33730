"""Sync and async `RedisMessageQueue`s behind one face, so that a behaviour is told once.

What the asyncio twin returns is made blocking: awaitables are awaited, `async with` becomes `with`. Callbacks are given
as plain functions; the asyncio twin gets them as coroutine functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import wraps
from types import ModuleType
from typing import Any, Self

import redis

import rmq_core
import rmq_core.asyncio
from tests.redis.message_queue.places import Place
from tests.redis.worlds import Blocking, Loop

NOT_WAITING: dict[str, Any] = {"message_wait_interval_seconds": 0, "message_visibility_timeout_seconds": 300}
"""A gateway that looks once and does not wait for messages, so that a test of an empty queue takes no time."""


class World:
    """Makes clients, gateways and queues of one flavour and closes what it made; `look` looks behind their back."""

    flavour: str
    module: ModuleType

    def __init__(self, place: Place) -> None:
        self.place = place
        self.look: redis.Redis = place.client()
        self._ends = ExitStack()
        self._ends.callback(self.look.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def client(self, **options: Any) -> Any:
        """A plain client of this flavour; `decode_responses=True` unless told otherwise."""
        raise NotImplementedError

    def gateway(self, *, client: Any = None, **options: Any) -> Any:
        """A built-in gateway that does not wait, unless `options` say otherwise."""
        chosen = NOT_WAITING | options
        return self.call(self.module.RedisGateway, redis_client=client or self.client(), **chosen)

    def queue(self, name: str = "q", *, client: Any = None, gateway: Any = None, **options: Any) -> Any:
        """A queue driven by plain calls, over a client of its own unless one or a gateway is given."""
        base = {"gateway": gateway} if gateway is not None else {"client": client or self.client()}
        return self.blocking(self.call(self.module.RedisMessageQueue, name, **base, **options))

    def glance(self, name: str = "q", *, queue: Any = None, **gateway: Any) -> Any:
        """A queue whose `process_message` looks once instead of waiting; `queue` holds options of the queue itself."""
        return self.queue(name, gateway=self.gateway(**gateway), **(queue or {}))

    def in_background(self, call: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        """Run `call` in a thread of its own, which may hang without hanging the test run."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(call(*args, **options))
            except BaseException as error:  # noqa: BLE001  handed to who asks for the result
                future.set_exception(error)

        threading.Thread(target=run, name="world", daemon=True).start()
        return future

    def callback(self, function: Callable[..., Any]) -> Any:
        """The function as a callback of this flavour."""
        return function

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call where this flavour lives, and wait for the result."""
        return function(*args, **options)

    def blocking(self, value: Any) -> Any:
        """An object of this flavour with methods that block."""
        return value


class SyncWorld(World):
    """`rmq_core`."""

    flavour = "sync"
    module = rmq_core

    def client(self, **options: Any) -> Any:
        client = self.place.client(**{"decode_responses": True} | options)
        self._ends.callback(client.close)
        return client


class AsyncWorld(World):
    """`rmq_core.asyncio`, made blocking."""

    flavour = "async"
    module = rmq_core.asyncio

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.loop = Loop()
        self._ends.callback(self.loop.close)

    def client(self, **options: Any) -> Any:
        client = self.loop.call(self.place.async_client, **{"decode_responses": True} | options).inner
        self._ends.callback(self.loop.call, client.aclose)
        return client

    def callback(self, function: Callable[..., Any]) -> Any:
        @wraps(function)
        async def later(*args: Any) -> Any:
            return function(*args)

        return later

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self.loop.call(function, *args, **options)

    def blocking(self, value: Any) -> Any:
        return Blocking(value, self.loop)
