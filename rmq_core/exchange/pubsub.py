"""Subscriptions to channels over one asyncio connection, which reports the channel of each notification."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from redis import exceptions as errors
from redis.asyncio import ConnectionPool
from redis.asyncio.client import PubSub

from rmq_core.connection.clients import is_cluster
from rmq_core.exchange.aio_pools import cancellable
from rmq_core.exchange.frames import FAILURES

_log = logging.getLogger("rmq")
_PATIENCE_S, _HASTE_S, _PAUSE_S = 5.0, 0.5, 1.0


class PubSubListener:
    """Subscriptions of one client. `on_message(channel)` is called for each notification and once per subscription.

    A lost connection is replaced, and so is one whose server is silent for ten seconds. A cluster sends each
    notification to all its nodes, so one connection, to any node, is enough there. Waiters poll in any case, because
    notifications sent while the connection is lost do not arrive. A client that cannot subscribe, such as a stub,
    never calls `on_message`.
    """

    def __init__(self, client: Any, on_message: Callable[[bytes], object]) -> None:
        self._client, self._on_message = client, on_message
        self._deaf = not (is_cluster(client) or hasattr(client, "pubsub"))  # a stub may have no `pubsub`
        self._pubsub: Any = None
        self._lost = False
        self._standing: dict[bytes, asyncio.Event] = {}
        self._turn = asyncio.Lock()  # without it, each of several concurrent first calls opens a connection
        self._task: asyncio.Task[None] | None = None

    async def listen(self, channel: bytes) -> None:
        """Subscribe, and return when the server confirms it, or after 5 s."""
        if self._deaf or (channel in self._standing and self._standing[channel].is_set()):
            return
        standing = self._standing.setdefault(channel, asyncio.Event())
        with contextlib.suppress(*FAILURES):
            try:
                await self._subscribe(channel)
            finally:
                if self._task is None or self._task.done():
                    self._task = asyncio.get_running_loop().create_task(self._hear(), name="rmq-notifications")
            async with asyncio.timeout(_PATIENCE_S):
                await standing.wait()

    async def forget(self, channel: bytes) -> None:
        """Unsubscribe. Give up after a short time or a failure: a notification without a waiter does no harm."""
        if self._standing.pop(channel, None) is not None:
            with contextlib.suppress(*FAILURES):
                async with self._turn:
                    if self._pubsub is not None and channel not in self._standing:
                        async with asyncio.timeout(_HASTE_S):
                            await self._pubsub.unsubscribe(channel)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._task is not None:
            while not self._task.done():  # redis-py may drop a cancellation, see `cancellable`
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=_HASTE_S)
            await asyncio.gather(self._task, return_exceptions=True)
        await self._drop()

    async def _subscribe(self, *channels: bytes) -> None:
        """Subscribe to these channels; over a new connection, to all that have waiters."""
        async with self._turn:
            pubsub = self._pubsub
            if pubsub is None:
                pubsub, channels = await self._opened(), tuple(self._standing)
            try:
                if channels:
                    await cancellable(pubsub.subscribe(*channels))
                    self._pubsub = pubsub
            except BaseException:
                self._pubsub = None
                await pubsub.aclose()
                raise

    async def _opened(self) -> Any:
        if not is_cluster(self._client):
            return self._client.pubsub()
        await cancellable(self._client.initialize())
        if self._lost:  # the nodes that the client knows may be gone
            await cancellable(self._client.nodes_manager.initialize())
        node = self._client.get_random_node()
        return PubSub(ConnectionPool(connection_class=node.connection_class, **node.connection_kwargs))

    async def _drop(self) -> None:
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            await pubsub.aclose()

    async def _hear(self) -> None:
        """Receive, and replace a lost connection as long as there are waiters."""
        asked = False
        while self._standing or self._pubsub is not None:
            try:
                if self._pubsub is None:
                    await self._subscribe()
                    continue
                message = await self._pubsub.get_message(timeout=_PATIENCE_S)
                if message is not None:
                    asked = self._lost = False
                    self._heard(message["type"], message["channel"])
                elif asked:
                    raise errors.TimeoutError("the server does not reply to PING")
                elif self._standing and self._pubsub is not None:
                    asked = True
                    await self._pubsub.ping()
            except FAILURES as error:
                if not self._lost:
                    _log.warning("the connection of the subscriptions is lost, waiters poll meanwhile: %s", error)
                self._lost, asked = True, False
                async with self._turn:
                    await self._drop()
                await asyncio.sleep(_PAUSE_S)

    def _heard(self, kind: str, channel: bytes | str) -> None:
        name = channel.encode() if isinstance(channel, str) else channel
        if kind == "subscribe" and name in self._standing:
            self._standing[name].set()
        if kind in {"subscribe", "message"}:
            self._on_message(name)
