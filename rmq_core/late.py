"""The public names, of both faces, that are loaded when they are first used.

Few programs need more than one discipline, and what needs redis-py takes longer to load than all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmq_core.jobs.config import JobsConfig as JobsConfig
    from rmq_core.jobs.config import WorkerConfig as WorkerConfig
    from rmq_core.jobs.job import Job as Job
    from rmq_core.jobs.operations.adding import NewJob as NewJob
    from rmq_core.jobs.operations.managing import JobResult as JobResult
    from rmq_core.jobs.operations.repeating import Repeat as Repeat
    from rmq_core.jobs.operations.repeating import RepeatableJob as RepeatableJob
    from rmq_core.jobs.operations.telling import JobEvent as JobEvent
    from rmq_core.jobs.recurrence import Cron as Cron
    from rmq_core.jobs.recurrence import Every as Every
    from rmq_core.jobs.recurrence import Missed as Missed
    from rmq_core.message_queue.stored import ClaimedMessage as ClaimedMessage
    from rmq_core.message_queue.stored import MessageData as MessageData
    from rmq_core.reliable.config import ReliableConfig as ReliableConfig
    from rmq_core.reliable.operations.reaping import Reaped as Reaped
    from rmq_core.rotation.config import RotationConfig as RotationConfig
    from rmq_core.streams.config import QueueConfig as QueueConfig
    from rmq_core.streams.effects import DbApi as DbApi
    from rmq_core.streams.effects import EffectsOnce as EffectsOnce
    from rmq_core.streams.messages import BacklogStats as BacklogStats
    from rmq_core.streams.messages import QueueMessage as QueueMessage
    from rmq_core.streams.signals import stop_on_signals as stop_on_signals
    from rmq_core.work.guard import DriverGuard as DriverGuard
    from rmq_core.work.guard import end_group as end_group

_BY_MODULE = {
    "jobs.config": ("JobsConfig", "WorkerConfig"),
    "jobs.job": ("Job",),
    "jobs.operations.adding": ("NewJob",),
    "jobs.operations.managing": ("JobResult",),
    "jobs.operations.repeating": ("Repeat", "RepeatableJob"),
    "jobs.operations.telling": ("JobEvent",),
    "jobs.recurrence": ("Cron", "Every", "Missed"),
    "message_queue.errors": ("LuaScriptError", "RetryBudgetExhaustedError"),
    "message_queue.stored": ("ClaimedMessage", "MessageData"),
    "message_queue.sync": ("AbstractRedisGateway", "RedisGateway", "RedisMessageQueue"),
    "reliable.config": ("ReliableConfig",),
    "reliable.operations.reaping": ("Reaped",),
    "rotation.config": ("RotationConfig",),
    "streams.config": ("QueueConfig",),
    "streams.effects": ("DbApi", "EffectsOnce"),
    "streams.messages": ("BacklogStats", "QueueMessage"),
    "streams.signals": ("stop_on_signals",),
    "work.guard": ("DriverGuard", "end_group"),
}
LATE = {name: module for module, names in _BY_MODULE.items() for name in names}
"""The module of each name, in this package."""
