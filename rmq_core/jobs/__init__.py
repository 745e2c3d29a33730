"""Background jobs: the types that `JobQueue` and `Worker` take and return."""

from __future__ import annotations

from rmq_core.jobs.config import JobsConfig, WorkerConfig
from rmq_core.jobs.job import Job
from rmq_core.jobs.publishing import NewJob
from rmq_core.jobs.repeating import Cron, Every, Missed, Repeat, RepeatableJob
from rmq_core.jobs.results import JobEvent, JobResult

__all__ = [
    "Cron", "Every", "Job", "JobEvent", "JobResult", "JobsConfig", "Missed", "NewJob", "Repeat", "RepeatableJob",
    "WorkerConfig",
]  # fmt: skip
