"""Public names that `rmq_core` and `rmq_core.asyncio` import on first use.

Few programs need more than one discipline, and modules that import redis-py take longer to load than all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmq_core.compat.events import EventOperation as EventOperation
    from rmq_core.compat.stored import ClaimedMessage as ClaimedMessage
    from rmq_core.compat.stored import MessageData as MessageData

LAZY = {
    "AbstractRedisGateway": "compat.sync",
    "ClaimedMessage": "compat.stored",
    "EventOperation": "compat.events",
    "LuaScriptError": "compat.errors",
    "MessageData": "compat.stored",
    "RedisGateway": "compat.sync",
    "RedisMessageQueue": "compat.sync",
    "RetryBudgetExhaustedError": "compat.errors",
}
"""The module of each name, relative to this package."""
