"""Subscriptions to channels over one asyncio connection, which reports the channel of each notification."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from redis import exceptions as errors

from rmq_core.exchange.aio_pools import cancellable

_log = logging.getLogger("rmq")
_PATIENCE_S, _HASTE_S = 5.0, 0.5


class PubSubListener:
    """Subscriptions of one client. `on_message(channel)` is called for each notification and once per subscription.

    A cluster client cannot subscribe; then `on_message` is never called and waiters have to poll. They poll in any
    case, because notifications sent while the connection is lost do not arrive.
    """

    def __init__(self, client: Any, on_message: Callable[[bytes], object]) -> None:
        self._on_message = on_message
        self._pubsub = client.pubsub() if hasattr(client, "pubsub") else None
        self._standing: dict[bytes, asyncio.Event] = {}
        self._turn = asyncio.Lock()  # without it, each of several concurrent first calls opens a connection
        self._task: asyncio.Task[None] | None = None

    async def listen(self, channel: bytes) -> None:
        """Subscribe, and return when the server confirms it, or after 5 s. redis-py resubscribes on reconnecting."""
        if self._pubsub is None or (channel in self._standing and self._standing[channel].is_set()):
            return
        standing = self._standing.setdefault(channel, asyncio.Event())
        with contextlib.suppress(errors.RedisError, OSError):
            async with self._turn:
                await cancellable(self._pubsub.subscribe(channel))
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._hear(), name="rmq-bells")
            async with asyncio.timeout(_PATIENCE_S):
                await standing.wait()

    async def forget(self, channel: bytes) -> None:
        """Unsubscribe. Give up after a short time or a failure: a notification without a waiter does no harm."""
        if self._pubsub is not None and channel in self._standing:
            del self._standing[channel]
            with contextlib.suppress(errors.RedisError, OSError):
                async with self._turn:
                    if channel not in self._standing:
                        async with asyncio.timeout(_HASTE_S):
                            await self._pubsub.unsubscribe(channel)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._task is not None:
            while not self._task.done():  # redis-py may drop a cancellation, see `cancellable`
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=_HASTE_S)
            await asyncio.gather(self._task, return_exceptions=True)
        if self._pubsub is not None:
            await self._pubsub.aclose()

    async def _hear(self) -> None:
        while True:
            try:
                async for message in self._pubsub.listen():  # type: ignore[union-attr]
                    self._heard(message["type"], message["channel"])
                await asyncio.sleep(0.05)
            except (errors.RedisError, OSError) as error:
                _log.warning("the connection of the subscriptions is lost: %s; waiters poll every few seconds", error)
                await asyncio.sleep(1)

    def _heard(self, kind: str, channel: bytes | str) -> None:
        name = channel.encode() if isinstance(channel, str) else channel
        if kind == "subscribe" and name in self._standing:
            self._standing[name].set()
        if kind != "unsubscribe":
            self._on_message(name)
