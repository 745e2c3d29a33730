"""A handler made before the fork is reset in the child, which then makes its own."""

from __future__ import annotations

import os
import signal

import redis

from rmq_core import RedisMessageQueue
from rmq_core.interrupt_handler import GracefulInterruptHandler

URL = "redis://localhost:6379/0"
inherited = GracefulInterruptHandler(verbose=False)


def worker_main() -> int:
    inherited.reset()
    interrupt = GracefulInterruptHandler(verbose=False)
    queue = RedisMessageQueue("jobs", client=redis.Redis.from_url(URL), interrupt=interrupt)
    queue.publish("job")
    with queue.process_message() as job:
        os.kill(os.getpid(), signal.SIGTERM)
        return 7 if interrupt.is_interrupted() and job == b"job" else 1


child = os.fork()
if child == 0:
    os._exit(worker_main())
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert not inherited.is_interrupted()
