"""Background jobs: the types that `JobQueue` and `Worker` take and return."""

from __future__ import annotations

from rmq_core.discipline.jobs.config import JobsConfig, WorkerConfig
from rmq_core.discipline.jobs.job import Job
from rmq_core.discipline.jobs.operations.adding import NewJob
from rmq_core.discipline.jobs.operations.managing import JobResult
from rmq_core.discipline.jobs.operations.repeating import Repeat, RepeatableJob
from rmq_core.discipline.jobs.operations.telling import JobEvent
from rmq_core.discipline.jobs.recurrence import Cron, Every, Missed

__all__ = [
    "Cron",
    "Every",
    "Job",
    "JobEvent",
    "JobResult",
    "JobsConfig",
    "Missed",
    "NewJob",
    "Repeat",
    "RepeatableJob",
    "WorkerConfig",
]
