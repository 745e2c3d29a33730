"""The asyncio versions of the classes and functions of `rmq_core`, under the same names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rmq_core import (
    Backoff,
    ConfigurationError,
    Durability,
    Isolation,
    Lease,
    LeaseAlreadySettled,
    LeasedConfig,
    LeaseLost,
    LeaseOwnedByOther,
    LeftUnsettled,
    MalformedMessage,
    Match,
    Message,
    MessageRef,
    NewMessage,
    Overflow,
    PayloadError,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
    RedisSettings,
    Stage,
    Typed,
    UnrecoverableError,
    Unsupported,
    exponential,
)
from rmq_core.batch import AsyncBatch as Batch
from rmq_core.kernel.registry import async_discipline_of as discipline_of
from rmq_core.kernel.registry import async_disciplines as disciplines
from rmq_core.kernel.registry import async_queues as queues
from rmq_core.leased.aio import AsyncLeasedQueue as LeasedQueue
from rmq_core.leased.queue import async_backlogs as backlogs
from rmq_core.leased.queue import async_holding as holding
from rmq_core.orchestrate.waiting import WaitHub
from rmq_core.protocol import AsyncWorkQueue as WorkQueue
from rmq_core.protocol import open_async_queue as open_queue

if TYPE_CHECKING:
    from rmq_core.jobs.aio import AsyncJobQueue as JobQueue
    from rmq_core.jobs.worker import Worker, run_worker
    from rmq_core.redis_message_queue.asyncio import RedisMessageQueue
    from rmq_core.reliable.aio import AsyncReliableQueue as ReliableQueue
    from rmq_core.reliable.reclaiming import AsyncReaper as Reaper
    from rmq_core.rotation.aio import AsyncRotationQueue as RotationQueue
    from rmq_core.streams.aio import AsyncStreamQueue as StreamQueue
    from rmq_core.streams.consumer import AsyncQueueConsumer as QueueConsumer

_ON_FIRST_USE = {
    "JobQueue": "jobs.aio:AsyncJobQueue", "QueueConsumer": "streams.consumer:AsyncQueueConsumer",
    "Reaper": "reliable.reclaiming:AsyncReaper", "RedisMessageQueue": "redis_message_queue.asyncio:RedisMessageQueue",
    "ReliableQueue": "reliable.aio:AsyncReliableQueue", "RotationQueue": "rotation.aio:AsyncRotationQueue",
    "StreamQueue": "streams.aio:AsyncStreamQueue", "Worker": "jobs.worker:Worker",
    "run_worker": "jobs.worker:run_worker",
}  # fmt: skip
__all__ = [
    "Backoff", "Batch", "ConfigurationError", "Durability", "Isolation", "JobQueue", "Lease", "LeaseAlreadySettled",
    "LeaseLost", "LeaseOwnedByOther", "LeasedConfig", "LeasedQueue", "LeftUnsettled", "MalformedMessage", "Match",
    "Message", "MessageRef", "NewMessage", "Overflow", "PayloadError", "QueueConsumer", "QueueFull", "QueueUnavailable",
    "Reaper", "RedisMessageQueue", "RedisMessageQueueError", "RedisSettings", "ReliableQueue", "RotationQueue", "Stage",
    "StreamQueue", "Typed", "UnrecoverableError", "Unsupported", "WaitHub", "WorkQueue", "Worker", "backlogs",
    "discipline_of", "disciplines", "exponential", "holding", "open_queue", "queues", "run_worker",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, defined = _ON_FIRST_USE[name].partition(":")
    value = globals()[name] = getattr(import_module(f"rmq_core.{module}"), defined)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
