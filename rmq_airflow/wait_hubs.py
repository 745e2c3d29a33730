"""The wait hubs of a triggerer: one for each server and event loop, shared by all triggers.

Law: a hub exists as long as a trigger uses it. Closing a hub never blocks a trigger: Airflow cancels a trigger's
clean-up again every second, so the hub closes in a task of its own, and the trigger waits only `CLOSING_S` for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TypeAlias
from weakref import WeakKeyDictionary

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_core import LeasedConfig, RedisSettings
from rmq_core.asyncio import WaitHub

Location: TypeAlias = tuple[RedisSettings, LeasedConfig]
CLOSING_S = 0.3
WAKING = "notification that wakes a trigger"
LOOK_UP_S = 5.0
"""Seconds for which triggers share one look-up of their connection, because a look-up calls the API server."""


@dataclass(slots=True)
class _Shared:
    """A hub and the number of its users."""

    hub: WaitHub
    users: int = 0


@dataclass(slots=True)
class _Place:
    """The hubs and connection look-ups of one event loop."""

    hubs: dict[Location, _Shared] = field(default_factory=dict)
    looking: dict[str, asyncio.Task[Location]] = field(default_factory=dict)
    found: dict[str, tuple[float, Location]] = field(default_factory=dict)
    closing: set[asyncio.Task[None]] = field(default_factory=set)


_places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Place] = WeakKeyDictionary()


@asynccontextmanager
async def shared_hub(redis_queue_conn_id: str) -> AsyncIterator[WaitHub]:
    """Provide the hub of a connection's server. Raises ConfigurationError or AirflowNotFoundException."""
    place = _place()
    location = await _look_up(place, redis_queue_conn_id)
    if location not in place.hubs:
        place.hubs[location] = _Shared(WaitHub(*location))
    shared = place.hubs[location]
    shared.users += 1
    try:
        yield shared.hub
    finally:
        shared.users -= 1
        if not shared.users:
            del place.hubs[location]
            await _close(place, shared.hub)


def _place() -> _Place:
    return _places.setdefault(asyncio.get_running_loop(), _Place())


async def _location(conn_id: str) -> Location:
    # Importing the client takes longer than Airflow allows a trigger to hold up all others.
    await asyncio.to_thread(import_module, "redis.asyncio")
    return await RedisQueueHook(conn_id).async_location(WAKING)


async def _look_up(place: _Place, conn_id: str) -> Location:
    found_at, location = place.found.get(conn_id, (0.0, None))
    if location is not None and time.monotonic() - found_at < LOOK_UP_S:
        return location
    task = place.looking.get(conn_id)
    if task is None:
        task = place.looking[conn_id] = asyncio.get_running_loop().create_task(_location(conn_id))
        task.add_done_callback(partial(_keep, place, conn_id))
    return await asyncio.shield(task)  # cancelling one trigger must not cancel the look-up that the others share


def _keep(place: _Place, conn_id: str, task: asyncio.Task[Location]) -> None:
    del place.looking[conn_id]
    if not task.cancelled() and task.exception() is None:
        place.found[conn_id] = time.monotonic(), task.result()


async def _close(place: _Place, hub: WaitHub) -> None:
    closing = asyncio.get_running_loop().create_task(hub.aclose(), name="rmq-hub-closing")
    place.closing.add(closing)
    closing.add_done_callback(place.closing.discard)
    await asyncio.wait({closing}, timeout=CLOSING_S)
