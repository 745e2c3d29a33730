"""Sync and async `RedisMessageQueue`s with one blocking interface, so that one test runs on both.

The wrapper awaits what the asyncio version returns, and turns `async with` into `with`. Tests pass callbacks as plain
functions; the wrapper hands them to the asyncio version as coroutine functions.
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

import rmq_core.redis_message_queue
import rmq_core.redis_message_queue.asyncio
from tests.core.redis_message_queue.places import Place
from tests.core.worlds import Blocking, Loop

NOT_WAITING: dict[str, Any] = {"message_wait_interval_seconds": 0, "message_visibility_timeout_seconds": 300}
"""A gateway that polls once and does not wait for messages, so that a test of an empty queue takes no time."""


class World:
    """Makes clients, gateways and queues of one concurrency model and closes them; `inspector` reads the keys."""

    flavour: str
    module: ModuleType

    def __init__(self, place: Place) -> None:
        self.place = place
        self.inspector: redis.Redis = place.client()
        self._ends = ExitStack()
        self._ends.callback(self.inspector.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def client(self, **options: Any) -> Any:
        """Return a plain client of this concurrency model; `decode_responses=True` by default."""
        raise NotImplementedError

    def gateway(self, *, client: Any = None, **options: Any) -> Any:
        """Return a built-in gateway that does not wait by default."""
        chosen = NOT_WAITING | options
        return self.call(self.module.RedisGateway, redis_client=client or self.client(), **chosen)

    def queue(self, name: str = "q", *, client: Any = None, gateway: Any = None, **options: Any) -> Any:
        """Return a queue with blocking methods, over its own client by default."""
        base = {"gateway": gateway} if gateway is not None else {"client": client or self.client()}
        return self.blocking(self.call(self.module.RedisMessageQueue, name, **base, **options))

    def glance(self, name: str = "q", *, queue: Any = None, **gateway: Any) -> Any:
        """Return a queue whose `process_message` polls once instead of waiting; `queue` are options of the queue."""
        return self.queue(name, gateway=self.gateway(**gateway), **(queue or {}))

    def in_background(self, call: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        """Run `call` in its own thread, which may hang without hanging the test run."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(call(*args, **options))
            except BaseException as error:  # raised by the future's `result`
                future.set_exception(error)

        threading.Thread(target=run, name="world", daemon=True).start()
        return future

    def callback(self, function: Callable[..., Any]) -> Any:
        """Return the function as a callback of this concurrency model."""
        return function

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call in the thread or loop of this world, and wait for the result."""
        return function(*args, **options)

    def blocking(self, value: Any) -> Any:
        """Return an object of this world with blocking methods."""
        return value


class SyncWorld(World):
    """`rmq_core`."""

    flavour = "sync"
    module = rmq_core.redis_message_queue

    def client(self, **options: Any) -> Any:
        client = self.place.client(**{"decode_responses": True} | options)
        self._ends.callback(client.close)
        return client


class AsyncWorld(World):
    """`rmq_core.asyncio`, made blocking."""

    flavour = "async"
    module = rmq_core.redis_message_queue.asyncio

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
