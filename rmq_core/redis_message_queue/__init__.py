"""All names of the package redis-message-queue: `RedisMessageQueue`, its gateways, handlers, events and errors."""

from __future__ import annotations

from rmq_core.errors import (
    CleanupFailedError,
    ConfigurationError,
    GatewayContractError,
    QueueBackpressureError,
    QueueDrainedError,
    RedisMessageQueueError,
)
from rmq_core.events import EventOutcome, QueueEvent
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler, GracefulInterruptHandler
from rmq_core.redis_message_queue.config import EventOperation, LuaScriptError, RetryBudgetExhaustedError
from rmq_core.redis_message_queue.queue import AbstractRedisGateway, RedisGateway, RedisMessageQueue
from rmq_core.redis_message_queue.stored import ClaimedMessage, MessageData

__all__ = [
    "AbstractRedisGateway", "BaseGracefulInterruptHandler", "ClaimedMessage", "CleanupFailedError",
    "ConfigurationError", "EventOperation", "EventOutcome", "GatewayContractError", "GracefulInterruptHandler",
    "LuaScriptError", "MessageData", "QueueBackpressureError", "QueueDrainedError", "QueueEvent", "RedisGateway",
    "RedisMessageQueue", "RedisMessageQueueError", "RetryBudgetExhaustedError",
]  # fmt: skip
