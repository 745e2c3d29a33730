"""The asyncio versions of the classes and functions of `rmq_core`, under the same names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import rmq_core
from rmq_core._exports import *  # noqa: F403  re-exported
from rmq_core._lazy import LAZY as _SHARED
from rmq_core.batch import AsyncBatch as AsyncBatch
from rmq_core.connection.clients import async_client as _client
from rmq_core.discipline.leased.aio import AsyncLeasedQueue as AsyncLeasedQueue
from rmq_core.discipline.leased.aio_survey import backlogs as backlogs
from rmq_core.discipline.leased.aio_survey import holding as holding
from rmq_core.errors import translated as _translated
from rmq_core.protocol import DEFAULT as _DEFAULT
from rmq_core.protocol import DISCIPLINES as _DISCIPLINES
from rmq_core.protocol import open_async_queue
from rmq_core.queue.registry import found_in as _found_in
from rmq_core.queue.registry import list_all as _list_all
from rmq_core.queue.registry import look_up as _look_up
from rmq_core.queue.registry import named_in as _named_in
from rmq_core.work.hub import WaitHub as WaitHub

if TYPE_CHECKING:
    from rmq_core._lazy import *  # noqa: F403  for type checkers
    from rmq_core.compat.aio import AbstractRedisGateway as AbstractRedisGateway
    from rmq_core.compat.aio import RedisGateway as RedisGateway
    from rmq_core.compat.aio import RedisMessageQueue as RedisMessageQueue
    from rmq_core.compat.errors import LuaScriptError as LuaScriptError
    from rmq_core.compat.errors import RetryBudgetExhaustedError as RetryBudgetExhaustedError
    from rmq_core.discipline.jobs.aio import AsyncJobQueue as AsyncJobQueue
    from rmq_core.discipline.jobs.worker import Worker as Worker
    from rmq_core.discipline.jobs.worker import run_worker as run_worker
    from rmq_core.discipline.reliable.aio import AsyncReliableQueue as AsyncReliableQueue
    from rmq_core.discipline.reliable.reaper import AsyncReaper as AsyncReaper
    from rmq_core.discipline.rotation.aio import AsyncRotationQueue as AsyncRotationQueue
    from rmq_core.discipline.streams.aio import AsyncStreamQueue as AsyncStreamQueue
    from rmq_core.discipline.streams.consumer import AsyncQueueConsumer as AsyncQueueConsumer

    JobQueue = AsyncJobQueue
    QueueConsumer = AsyncQueueConsumer
    Reaper = AsyncReaper
    ReliableQueue = AsyncReliableQueue
    RotationQueue = AsyncRotationQueue
    StreamQueue = AsyncStreamQueue

Batch = AsyncBatch
LeasedQueue = AsyncLeasedQueue
open_queue = open_async_queue

_TWINS = ("AbstractRedisGateway", "RedisGateway", "RedisMessageQueue")
_OWN = {f"Async{each.queue}": f"discipline.{each.name}.aio" for each in _DISCIPLINES.values() if each.name != _DEFAULT}
_ASYNC = _OWN | {"AsyncQueueConsumer": "discipline.streams.consumer", "AsyncReaper": "discipline.reliable.reaper"}
_WORKERS = dict.fromkeys(("Worker", "run_worker"), "discipline.jobs.worker")
_LAZY = _SHARED | _ASYNC | _WORKERS | dict.fromkeys(_TWINS, "compat.aio")

__all__ = [  # noqa: PLE0604  every item is a name
    *rmq_core.__all__,
    *_ASYNC,
    "AsyncBatch",
    "AsyncLeasedQueue",
    "WaitHub",
    "Worker",
    "run_worker",
]


def __getattr__(name: str) -> Any:
    defined = f"Async{name}" if f"Async{name}" in _ASYNC else name
    if defined not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rmq_core.{_LAZY[defined]}"), defined)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


async def queues(redis: Any) -> list[str]:
    """Return the names of all queues that were ever published to or claimed from on this server."""
    return sorted(await _named(redis))


async def disciplines(redis: Any) -> dict[str, str]:
    """Return the discipline of each queue that `queues` lists, by queue name; `open_queue` takes both."""
    return await _named(redis)


async def _named(redis: Any) -> dict[str, str]:
    client, owned = _client(redis)
    try:
        with _translated():
            return dict(_named_in(await _list_all(client.pipeline(transaction=False)).execute()))
    finally:
        if owned:
            await client.aclose()


async def discipline_of(redis: Any, name: str) -> str | None:
    """Return the discipline of a queue; None when the server knows no such queue.

    This takes one round trip, however many queues exist.
    """
    client, owned = _client(redis)
    try:
        with _translated():
            return _found_in(await _look_up(client.pipeline(transaction=False), name).execute())
    finally:
        if owned:
            await client.aclose()
