"""Public names that `rmq_core` and `rmq_core.asyncio` import on first use, and deprecated names.

Few programs need more than one discipline, and modules that import redis-py take longer to load than all others.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmq_core.compat.stored import ClaimedMessage as ClaimedMessage
    from rmq_core.compat.stored import MessageData as MessageData

LAZY = {
    "AbstractRedisGateway": "compat.sync",
    "ClaimedMessage": "compat.stored",
    "LuaScriptError": "compat.errors",
    "MessageData": "compat.stored",
    "RedisGateway": "compat.sync",
    "RedisMessageQueue": "compat.sync",
    "RetryBudgetExhaustedError": "compat.errors",
}
"""The module of each name, relative to this package."""
_MODULES = {
    "jobs": (
        "Cron", "Every", "Job", "JobEvent", "JobResult", "JobsConfig", "Missed", "NewJob", "Repeat", "RepeatableJob",
        "WorkerConfig",
    ),
    "reliable": ("Reaped", "ReliableConfig"),
    "rotation": ("RotationConfig",),
    "streams": ("BacklogStats", "DbApi", "EffectsOnce", "QueueConfig", "QueueMessage", "stop_on_signals"),
    "work": (
        "Claimant", "Claimed", "Counted", "DriverGuard", "Handover", "HeldBatch", "OnSettled", "Relation",
        "Settleable", "Submission", "Threshold", "check_on_settled", "claim_as", "conclude", "counted", "depth",
        "end_group", "has_left", "refuse_foreign",
    ),
}  # fmt: skip
MOVED = {name: f"rmq_core.{module}.{name}" for module, names in _MODULES.items() for name in names}
MOVED["Enrolment"] = "rmq_core.ConsumerRegistration"
"""The new place of each name that version 0.1 had in this package."""


def moved(name: str, package: str) -> Any:
    """Return the value of a moved name, and emit a DeprecationWarning for the caller."""
    place = MOVED[name]
    warnings.warn(
        f"{package}.{name} is now {place}; version 0.4 removes the old name", DeprecationWarning, stacklevel=3
    )
    module, _, attribute = place.rpartition(".")
    return getattr(import_module(module), attribute)
