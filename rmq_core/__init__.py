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
from rmq_core.connection.settings import RedisSettings
from rmq_core.envelope.claim_check import ClaimCheck
from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.envelope.matching import Match
from rmq_core.envelope.typed import Typed
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
from rmq_core.kernel.registry import discipline_of, disciplines, queues
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
    "Backoff", "Batch", "ClaimCheck", "ConfigurationError", "Durability", "Isolation", "JobQueue", "Lease",
    "LeaseAlreadySettled", "LeaseLost", "LeaseOwnedByOther", "LeasedConfig", "LeasedQueue", "LeftUnsettled",
    "MalformedMessage", "Match", "Message", "MessageRef", "NewMessage", "Overflow", "PayloadError", "QueueConsumer",
    "QueueFull", "QueueUnavailable", "Reaper", "RedisMessageQueue", "RedisMessageQueueError", "RedisSettings",
    "ReliableQueue", "RotationQueue", "Stage", "StreamQueue", "Typed", "UnrecoverableError", "Unsupported", "WorkQueue",
    "backlogs", "discipline_of", "disciplines", "exponential", "holding", "open_queue", "queues",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rmq_core.{_ON_FIRST_USE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
