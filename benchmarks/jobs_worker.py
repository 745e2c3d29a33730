"""One process of a job library: it adds and handles jobs on command.

`python -m benchmarks.jobs_worker LIBRARY PORT SERVER_PID` runs in the library's own environment. It reads commands,
`COMMAND COUNT WIDTH`, one per line, and answers each with one line of JSON: the seconds of one job in wall-clock time,
in processor time of the client, and in processor time of the server.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from typing import Any

from benchmarks import jobs_async, jobs_sync
from benchmarks.jobs_tally import Clock, Taken

LIBRARIES: dict[str, type[jobs_async.AsyncLibrary | jobs_sync.SyncLibrary]] = {
    "rmq": jobs_async.Rmq,
    "chasquimq": jobs_async.ChasquiMQ,
    "arq": jobs_async.Arq,
    "saq": jobs_async.Saq,
    "taskiq-stream": jobs_async.TaskiqStream,
    "taskiq-list": jobs_async.TaskiqList,
    "streaq": jobs_async.Streaq,
    "rmq-sync": jobs_sync.RmqSync,
    "rq": jobs_sync.Rq,
    "dramatiq": jobs_sync.Dramatiq,
    "celery": jobs_sync.Celery,
    "huey": jobs_sync.Huey,
}
TEXT = "x" * 160
PATIENCE_S = 60


class Worker:
    """The commands; `width` is the size of a bulk, or the number of concurrent jobs."""

    def __init__(self, library: str, port: int, server_pid: int) -> None:
        self.library = LIBRARIES[library](port, Clock(server_pid))

    def add(self, count: int, width: int) -> Taken:  # noqa: ARG002
        return self.library.time_adds(_jobs(count))

    def add_bulk(self, count: int, width: int) -> Taken:
        return self.library.time_bulks([_jobs(width) for _ in range(count // width)])

    def work(self, count: int, width: int) -> Taken:
        """Handle `count` jobs; adding them is not timed."""
        self.library.time_bulks([_jobs(count - 1)])  # one job more, which opens the connection
        tally = self.library.drain(width, count)
        if tally.taken is None:
            raise RuntimeError(f"not all of {count} jobs were handled: the benchmark is broken")
        return tally.taken.per(tally.timed)


def _jobs(count: int) -> list[dict[str, Any]]:
    return [{"number": number, "text": TEXT} for number in range(count)]


def main() -> None:
    name, port, server_pid = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr  # some libraries print to stdout
    logging.disable(logging.CRITICAL)  # some libraries log every job
    worker = Worker(name, int(port), int(server_pid))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        command, count, width = line.split()
        watchdog = threading.Timer(PATIENCE_S, os._exit, (1,))  # a worker that hangs must not hang the benchmark
        watchdog.daemon = True
        watchdog.start()
        taken = getattr(worker, command)(int(count), int(width))
        watchdog.cancel()
        print(json.dumps(taken), file=answers, flush=True)


if __name__ == "__main__":
    main()
