"""The public names, of both faces, that are loaded when they are first used.

Few programs need more than one discipline, and what needs redis-py takes longer to load than all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmq_core.compat.stored import ClaimedMessage as ClaimedMessage
    from rmq_core.compat.stored import MessageData as MessageData
    from rmq_core.discipline.jobs.config import JobsConfig as JobsConfig
    from rmq_core.discipline.jobs.config import WorkerConfig as WorkerConfig
    from rmq_core.discipline.jobs.job import Job as Job
    from rmq_core.discipline.jobs.operations.adding import NewJob as NewJob
    from rmq_core.discipline.jobs.operations.managing import JobResult as JobResult
    from rmq_core.discipline.jobs.operations.repeating import Repeat as Repeat
    from rmq_core.discipline.jobs.operations.repeating import RepeatableJob as RepeatableJob
    from rmq_core.discipline.jobs.operations.telling import JobEvent as JobEvent
    from rmq_core.discipline.jobs.recurrence import Cron as Cron
    from rmq_core.discipline.jobs.recurrence import Every as Every
    from rmq_core.discipline.jobs.recurrence import Missed as Missed
    from rmq_core.discipline.reliable.config import ReliableConfig as ReliableConfig
    from rmq_core.discipline.reliable.operations.reaping import Reaped as Reaped
    from rmq_core.discipline.rotation.config import RotationConfig as RotationConfig
    from rmq_core.discipline.streams.config import QueueConfig as QueueConfig
    from rmq_core.discipline.streams.effects import DbApi as DbApi
    from rmq_core.discipline.streams.effects import EffectsOnce as EffectsOnce
    from rmq_core.discipline.streams.messages import BacklogStats as BacklogStats
    from rmq_core.discipline.streams.messages import QueueMessage as QueueMessage
    from rmq_core.discipline.streams.signals import stop_on_signals as stop_on_signals
    from rmq_core.work.guard import DriverGuard as DriverGuard
    from rmq_core.work.guard import end_group as end_group

_BY_MODULE = {
    "discipline.jobs.config": ("JobsConfig", "WorkerConfig"),
    "discipline.jobs.job": ("Job",),
    "discipline.jobs.operations.adding": ("NewJob",),
    "discipline.jobs.operations.managing": ("JobResult",),
    "discipline.jobs.operations.repeating": ("Repeat", "RepeatableJob"),
    "discipline.jobs.operations.telling": ("JobEvent",),
    "discipline.jobs.recurrence": ("Cron", "Every", "Missed"),
    "compat.errors": ("LuaScriptError", "RetryBudgetExhaustedError"),
    "compat.stored": ("ClaimedMessage", "MessageData"),
    "compat.sync": ("AbstractRedisGateway", "RedisGateway", "RedisMessageQueue"),
    "discipline.reliable.config": ("ReliableConfig",),
    "discipline.reliable.operations.reaping": ("Reaped",),
    "discipline.rotation.config": ("RotationConfig",),
    "discipline.streams.config": ("QueueConfig",),
    "discipline.streams.effects": ("DbApi", "EffectsOnce"),
    "discipline.streams.messages": ("BacklogStats", "QueueMessage"),
    "discipline.streams.signals": ("stop_on_signals",),
    "work.guard": ("DriverGuard", "end_group"),
}
LATE = {name: module for module, names in _BY_MODULE.items() for name in names}
"""The module of each name, in this package."""
