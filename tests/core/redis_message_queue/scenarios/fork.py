"""Workers that are forked make their clients and queues themselves."""

from __future__ import annotations

import os

import redis

from rmq_core import RedisMessageQueue

URL = "redis://localhost:6379/0"


def worker_main() -> int:
    client = redis.Redis.from_url(URL, decode_responses=True)
    queue = RedisMessageQueue("jobs", client=client)
    with queue.process_message() as job:
        return int(str(job).removeprefix("job "))


with redis.Redis.from_url(URL) as parent:
    jobs = RedisMessageQueue("jobs", client=parent)
    for number in (1, 2, 3):
        jobs.publish(f"job {number}")

children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(worker_main())
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert sorted(codes) == [1, 2, 3], codes
