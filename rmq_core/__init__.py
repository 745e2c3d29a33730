"""RMQ: a Redis work queue that data pipelines can trust. `__all__` lists the public names of this package.

Rarer ones are in `rmq_core.errors`, `events`, `messages`, `protocol` and `reports`, those of a single discipline in
`rmq_core.jobs`, `redis_message_queue`, `reliable`, `rotation` and `streams`; orchestrators use
`rmq_core.orchestrate`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rmq_core._version import __version__ as __version__
from rmq_core.batch import Batch
from rmq_core.connection.clients import sync_client as _client
from rmq_core.connection.settings import RedisSettings
from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.envelope.matching import Match
from rmq_core.errors import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    LeftUnsettled,
    MalformedMessage,
    PayloadError,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
    UnrecoverableError,
    Unsupported,
)
from rmq_core.errors import translated as _translated
from rmq_core.kernel.registry import found_in as _found_in
from rmq_core.kernel.registry import list_all as _list_all
from rmq_core.kernel.registry import look_up as _look_up
from rmq_core.kernel.registry import named_in as _named_in
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.queue import LeasedQueue, backlogs, holding
from rmq_core.messages import Isolation, Lease, NewMessage, Stage
from rmq_core.policy import Backoff, Durability, Overflow, exponential
from rmq_core.protocol import WorkQueue, open_queue

if TYPE_CHECKING:
    from rmq_core.jobs.queue import JobQueue
    from rmq_core.redis_message_queue.queue import RedisMessageQueue
    from rmq_core.reliable.queue import ReliableQueue
    from rmq_core.reliable.reclaiming import Reaper
    from rmq_core.rotation.queue import RotationQueue
    from rmq_core.streams.consumer import QueueConsumer
    from rmq_core.streams.queue import StreamQueue

# Few programs need more than one discipline, and modules that import redis-py take longer to load than all others.
_ON_FIRST_USE = {
    "JobQueue": "jobs.queue", "QueueConsumer": "streams.consumer", "Reaper": "reliable.reclaiming",
    "RedisMessageQueue": "redis_message_queue.queue", "ReliableQueue": "reliable.queue",
    "RotationQueue": "rotation.queue", "StreamQueue": "streams.queue",
}  # fmt: skip
__all__ = [
    "Backoff", "Batch", "ConfigurationError", "Durability", "Isolation", "JobQueue", "Lease", "LeaseAlreadySettled",
    "LeaseLost", "LeaseOwnedByOther", "LeasedConfig", "LeasedQueue", "LeftUnsettled", "MalformedMessage", "Match",
    "Message", "MessageRef", "NewMessage", "Overflow", "PayloadError", "QueueConsumer", "QueueFull", "QueueUnavailable",
    "Reaper", "RedisMessageQueue", "RedisMessageQueueError", "RedisSettings", "ReliableQueue", "RotationQueue", "Stage",
    "StreamQueue", "UnrecoverableError", "Unsupported", "WorkQueue", "backlogs", "discipline_of", "disciplines",
    "exponential", "holding", "open_queue", "queues",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rmq_core.{_ON_FIRST_USE[name]}"), name)
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
