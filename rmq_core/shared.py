"""The public names that `rmq_core` and `rmq_core.asyncio` have in common: values, errors, settings, policies.

Those of single disciplines are in `late`.
"""

from __future__ import annotations

from rmq_core.columns import Columns, header_items
from rmq_core.connection import RedisSettings
from rmq_core.errors import (
    CleanupFailedError,
    ConfigurationError,
    ConsumerTaken,
    GatewayContractError,
    JobFailed,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    LeftUnsettled,
    MalformedMessage,
    NotDurable,
    PayloadError,
    PayloadTooDeep,
    PayloadTooLarge,
    QueueBackpressureError,
    QueueDrainedError,
    QueueError,
    QueueFull,
    QueueNotEmpty,
    QueueUnavailable,
    RedisMessageQueueError,
    ScriptFailed,
    StageLost,
    UnrecoverableError,
    Unsupported,
    WrongKeyType,
)
from rmq_core.events import EventOperation, EventOutcome, Operation, QueueEvent
from rmq_core.handover import Handover, Submission
from rmq_core.interrupt_handler import (
    BaseGracefulInterruptHandler,
    EventDrivenInterruptHandler,
    GracefulInterruptHandler,
)
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.operations.enrolling import Enrolment
from rmq_core.messages import Failure, IsolatedGroup, Isolation, Lease, Message, MessageRef, NewMessage, Stage
from rmq_core.policy import Backoff, Durability, Overflow, exponential
from rmq_core.protocol import AsyncWorkQueue, Capabilities, WorkQueue, require
from rmq_core.reports import (
    Backlog,
    LeaseInfo,
    MessagePage,
    Outcome,
    Published,
    PublishReport,
    QueueStats,
    SettledRecord,
    SettleReport,
)

__all__ = [
    "AsyncWorkQueue",
    "Backlog",
    "Backoff",
    "BaseGracefulInterruptHandler",
    "Capabilities",
    "CleanupFailedError",
    "Columns",
    "ConfigurationError",
    "ConsumerTaken",
    "Durability",
    "Enrolment",
    "EventDrivenInterruptHandler",
    "EventOperation",
    "EventOutcome",
    "Failure",
    "GatewayContractError",
    "GracefulInterruptHandler",
    "Handover",
    "IsolatedGroup",
    "Isolation",
    "JobFailed",
    "Lease",
    "LeaseAlreadySettled",
    "LeaseInfo",
    "LeaseLost",
    "LeaseOwnedByOther",
    "LeasedConfig",
    "LeftUnsettled",
    "MalformedMessage",
    "Message",
    "MessagePage",
    "MessageRef",
    "NewMessage",
    "NotDurable",
    "Operation",
    "Outcome",
    "Overflow",
    "PayloadError",
    "PayloadTooDeep",
    "PayloadTooLarge",
    "PublishReport",
    "Published",
    "QueueBackpressureError",
    "QueueDrainedError",
    "QueueError",
    "QueueEvent",
    "QueueFull",
    "QueueNotEmpty",
    "QueueStats",
    "QueueUnavailable",
    "RedisMessageQueueError",
    "RedisSettings",
    "ScriptFailed",
    "SettleReport",
    "SettledRecord",
    "Stage",
    "StageLost",
    "Submission",
    "UnrecoverableError",
    "Unsupported",
    "WorkQueue",
    "WrongKeyType",
    "exponential",
    "header_items",
    "require",
]
