"""Sync and async queues with one blocking interface, so that one test runs on both.

The async façade runs on an event loop in its own thread: heartbeats continue while the test body sleeps, and several
test threads can use one queue. What it returns is made blocking: awaitables are awaited, async context managers and
iterators become plain ones.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import redis

import rmq_core
import rmq_core.asyncio
from rmq_core.kernel.base import QueuePart

LOOP_ENDS_S = 300


class World:
    """Makes queues, and closes them at the end; `client` is a plain client for inspection."""

    flavour: str

    def __init__(self, url: str, client: redis.Redis) -> None:
        self.url = url
        self.client = client
        self._ends = ExitStack()
        self._threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="world")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._ends.close()

    def queue(self, name: str = "q", config: rmq_core.LeasedConfig | None = None, **options: Any) -> Any:
        """Return a `LeasedQueue` of this world with blocking methods; `settings=` replaces this world's server."""
        queue = self._queue(options.pop("settings", self.url), name, config, **options)
        self._ends.callback(queue.close)
        return queue

    def open(self, discipline: str, name: str = "q", config: Any = None, settings: Any = None) -> Any:
        """Return a queue of any discipline; `settings=` replaces this world's server."""
        queue = self._open(settings or self.url, name, discipline, config)
        self._ends.callback(queue.close)
        return queue

    def make(self, public_name: str, *args: Any, settings: Any = None, **options: Any) -> Any:
        """Return an object of a class of this world's package, on this world's server or on `settings`."""
        made = self._make(public_name, settings or self.url, *args, **options)
        self._ends.callback(made.close)
        return made

    def in_background(self, call: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        """Run `call` in another thread, as a second worker or a waiting call."""
        return self._threads.submit(call, *args, **options)

    def _queue(self, settings: Any, name: str, config: rmq_core.LeasedConfig | None, **options: Any) -> Any:
        raise NotImplementedError

    def _open(self, settings: Any, name: str, discipline: str, config: Any) -> Any:
        raise NotImplementedError

    def _make(self, public_name: str, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


class SyncWorld(World):
    """Queues of `rmq_core`."""

    flavour = "sync"

    def _queue(self, settings: Any, name: str, config: rmq_core.LeasedConfig | None, **options: Any) -> Any:
        return rmq_core.LeasedQueue(settings, name, config, **options)

    def _open(self, settings: Any, name: str, discipline: str, config: Any) -> Any:
        return rmq_core.open_queue(settings, name, discipline, config)

    def _make(self, public_name: str, *args: Any, **options: Any) -> Any:
        return getattr(rmq_core, public_name)(*args, **options)


class AsyncWorld(World):
    """Queues of `rmq_core.asyncio`, made blocking."""

    flavour = "async"

    def __init__(self, url: str, client: redis.Redis) -> None:
        super().__init__(url, client)
        self.loop = Loop()
        self._ends.callback(self.loop.close)

    def _queue(self, settings: Any, name: str, config: rmq_core.LeasedConfig | None, **options: Any) -> Any:
        return self.loop.call(rmq_core.asyncio.LeasedQueue, settings, name, config, **options)

    def _open(self, settings: Any, name: str, discipline: str, config: Any) -> Any:
        return self.loop.call(rmq_core.asyncio.open_queue, settings, name, discipline, config)

    def _make(self, public_name: str, *args: Any, **options: Any) -> Any:
        return self.loop.call(getattr(rmq_core.asyncio, public_name), *args, **options)


class Loop:
    """An event loop in its own thread that other threads call into."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="world loop", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call `function` on the loop, await its result if necessary, and return a blocking object."""

        async def run() -> Any:
            result = function(*args, **options)
            return await result if inspect.isawaitable(result) else result

        return self.blocking(self._wait(run()))

    def blocking(self, value: Any) -> Any:
        """Return `value` with blocking methods; plain values and frozen records stay unchanged."""
        if hasattr(value, "__anext__") and not hasattr(value, "__aenter__"):
            return self.iterate(value)
        if isinstance(value, rmq_core.asyncio.Batch):
            return BlockingBatch(value, self)
        if hasattr(value, "__aenter__") or isinstance(value, QueuePart):
            return Blocking(value, self)
        return value

    def close(self) -> None:
        """Stop the loop and let its thread end."""
        self._wait(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LOOP_ENDS_S)
        self._loop.close()

    def iterate(self, iterator: Any) -> Iterator[Any]:
        """Yield what an asynchronous iterator yields."""
        try:
            while True:
                try:
                    yield self.call(iterator.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            if hasattr(iterator, "aclose"):
                self.call(iterator.aclose)

    def _wait(self, coroutine: Any) -> Any:
        result, error = asyncio.run_coroutine_threadsafe(_guarded(coroutine), self._loop).result()
        if error is not None:
            raise error
        return result


class Blocking:
    """An object of the async façade: every method blocks, `async with` becomes `with`."""

    def __init__(self, inner: Any, loop: Loop) -> None:
        self.inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if inspect.isawaitable(value):
            return self._loop.call(lambda: value)
        if not callable(value):
            return self._loop.blocking(value)
        return lambda *args, **options: self._loop.call(value, *args, **options)

    def __enter__(self) -> Any:
        entered = self._loop.call(self.inner.__aenter__)
        return self if isinstance(entered, Blocking) and entered.inner is self.inner else entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        result: bool | None = self._loop.call(self.inner.__aexit__, kind, error, trace)
        return result


class BlockingBatch(Blocking):
    """A batch of the async façade: `async for` becomes `for`."""

    def __iter__(self) -> Iterator[Any]:
        return self._loop.iterate(self.inner.__aiter__())

    def __len__(self) -> int:
        return len(self.inner)


async def _guarded(coroutine: Any) -> tuple[Any, BaseException | None]:
    # KeyboardInterrupt and SystemExit would otherwise end the loop's thread instead of reaching the test, and
    # StopAsyncIteration cannot pass through a future.
    try:
        return await coroutine, None
    except BaseException as error:  # handed to the test
        return None, error


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
