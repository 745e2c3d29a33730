"""RMQ: a Redis work queue that data pipelines can trust. These are its public names; nothing else is."""

from __future__ import annotations

from typing import Any

from rmq_core.clients import sync_client as _client
from rmq_core.connection import RedisSettings
from rmq_core.errors import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    LeftUnsettled,
    MalformedMessage,
    NotDurable,
    PayloadError,
    PayloadTooDeep,
    PayloadTooLarge,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
    ScriptFailed,
    WrongKeyType,
)
from rmq_core.events import Operation, QueueEvent
from rmq_core.handover import Handover, Submission
from rmq_core.keys import QUEUES as _QUEUES
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.sync import LeasedQueue
from rmq_core.messages import (
    Backlog,
    Failure,
    Lease,
    LeaseInfo,
    Message,
    MessageRef,
    Outcome,
    Published,
    PublishReport,
    QueueStats,
    SettledRecord,
    SettleReport,
)
from rmq_core.policy import Backoff, Durability, Overflow, exponential

__version__ = "0.1.0"

__all__ = [
    "Backlog",
    "Backoff",
    "ConfigurationError",
    "Durability",
    "Failure",
    "Handover",
    "Lease",
    "LeaseAlreadySettled",
    "LeaseInfo",
    "LeaseLost",
    "LeaseOwnedByOther",
    "LeasedConfig",
    "LeasedQueue",
    "LeftUnsettled",
    "MalformedMessage",
    "Message",
    "MessageRef",
    "NotDurable",
    "Operation",
    "Outcome",
    "Overflow",
    "PayloadError",
    "PayloadTooDeep",
    "PayloadTooLarge",
    "PublishReport",
    "Published",
    "QueueEvent",
    "QueueFull",
    "QueueStats",
    "QueueUnavailable",
    "RedisMessageQueueError",
    "RedisSettings",
    "ScriptFailed",
    "SettleReport",
    "SettledRecord",
    "Submission",
    "WrongKeyType",
    "exponential",
    "queues",
]


def queues(redis: Any) -> list[str]:
    """The names of all queues that were ever published to or claimed from on this server."""
    client, owned = _client(redis)
    try:
        return sorted(name if isinstance(name, str) else name.decode() for name in client.smembers(_QUEUES))
    finally:
        if owned:
            client.close()
