"""Runs an application on a second event loop, in a second thread, apart from the loop of the server.

A request of a page, such as a search in a thousand messages, keeps the processor busy. On the server's loop, probes
and metrics would wait for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

Channel = Callable[..., Awaitable[Any]]


class OnItsOwnLoop:
    """An ASGI application that passes requests to another. Its thread starts with the first of them."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._made: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Any, receive: Channel, send: Channel) -> None:
        """Answer a request."""
        here = asyncio.get_running_loop()
        answer = self.app(scope, _on(here, receive), _on(here, send))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer, self._loop()))

    def close(self) -> None:
        """End the thread, when all requests have been answered."""
        if self._made is not None:
            self._made.call_soon_threadsafe(self._made.stop)

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._made is None:
            self._made = asyncio.new_event_loop()
            threading.Thread(target=_run, args=[self._made], name="rmq console", daemon=True).start()
        return self._made


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _on(loop: asyncio.AbstractEventLoop, call: Channel) -> Channel:
    """Return a function that calls another on that loop."""

    async def there(*given: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(*given), loop))  # type: ignore[arg-type]

    return there
