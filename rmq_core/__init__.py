"""RMQ: a Redis work queue that data pipelines can trust. `__all__` lists the public names of this package."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rmq_core import _exports as _shared
from rmq_core._exports import *  # noqa: F403  re-exported
from rmq_core._lazy import LAZY as _SHARED
from rmq_core._version import __version__ as __version__
from rmq_core.batch import Batch as Batch
from rmq_core.connection.clients import sync_client as _client
from rmq_core.discipline.leased.survey import backlogs as backlogs
from rmq_core.discipline.leased.survey import holding as holding
from rmq_core.discipline.leased.sync import LeasedQueue as LeasedQueue
from rmq_core.errors import translated as _translated
from rmq_core.protocol import DEFAULT as _DEFAULT
from rmq_core.protocol import DISCIPLINES as _DISCIPLINES
from rmq_core.protocol import open_queue as open_queue
from rmq_core.queue.registry import found_in as _found_in
from rmq_core.queue.registry import list_all as _list_all
from rmq_core.queue.registry import look_up as _look_up
from rmq_core.queue.registry import named_in as _named_in

if TYPE_CHECKING:
    from rmq_core._lazy import *  # noqa: F403  for type checkers
    from rmq_core.compat.errors import LuaScriptError as LuaScriptError
    from rmq_core.compat.errors import RetryBudgetExhaustedError as RetryBudgetExhaustedError
    from rmq_core.compat.sync import AbstractRedisGateway as AbstractRedisGateway
    from rmq_core.compat.sync import RedisGateway as RedisGateway
    from rmq_core.compat.sync import RedisMessageQueue as RedisMessageQueue
    from rmq_core.discipline.jobs.sync import JobQueue as JobQueue
    from rmq_core.discipline.reliable.reaper import Reaper as Reaper
    from rmq_core.discipline.reliable.sync import ReliableQueue as ReliableQueue
    from rmq_core.discipline.rotation.sync import RotationQueue as RotationQueue
    from rmq_core.discipline.streams.consumer import QueueConsumer as QueueConsumer
    from rmq_core.discipline.streams.sync import StreamQueue as StreamQueue


_OWN = {each.queue: f"discipline.{each.name}.sync" for each in _DISCIPLINES.values() if each.name != _DEFAULT}
_LAZY = _SHARED | _OWN | {"QueueConsumer": "discipline.streams.consumer", "Reaper": "discipline.reliable.reaper"}
__all__ = [  # noqa: PLE0604  every item is a name
    *(name for name in vars(_shared) if not name.startswith("_") and name != "annotations"),
    *_LAZY,
    "Batch",
    "LeasedQueue",
    "backlogs",
    "discipline_of",
    "disciplines",
    "holding",
    "open_queue",
    "queues",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rmq_core.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def queues(redis: Any) -> list[str]:
    """Return the names of all queues that were ever published to or claimed from on this server."""
    return sorted(disciplines(redis))


def disciplines(redis: Any) -> dict[str, str]:
    """Return the discipline of each queue that `queues` lists, by queue name; `open_queue` takes both."""
    client, owned = _client(redis)
    try:
        with _translated():
            return dict(_named_in(_list_all(client.pipeline(transaction=False)).execute()))
    finally:
        if owned:
            client.close()


def discipline_of(redis: Any, name: str) -> str | None:
    """Return the discipline of a queue; None when the server knows no such queue.

    This takes one round trip, however many queues exist.
    """
    client, owned = _client(redis)
    try:
        with _translated():
            return _found_in(_look_up(client.pipeline(transaction=False), name).execute())
    finally:
        if owned:
            client.close()
