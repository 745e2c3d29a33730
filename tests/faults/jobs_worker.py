"""A worker of jobs that writes down what it does.

Run as `python -m tests.faults.jobs_worker <url> <log>`. A line of the log is the data of a job whose handler ended.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from rmq_core.asyncio import run_worker
from rmq_core.jobs import Job, JobsConfig, WorkerConfig

CONFIG = JobsConfig(lease=0.5, max_attempts=100)


def main(url: str, path: str) -> None:
    """Work until the process is killed."""
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    async def handler(job: Job) -> None:
        await asyncio.sleep(random.uniform(0, 0.01))
        os.write(file, f"{job.data}\n".encode())

    run_worker(url, "q", handler, WorkerConfig(concurrency=10), CONFIG)


if __name__ == "__main__":
    main(*sys.argv[1:])
