# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""A step that holds a message of three queues and ends in one of many ways; environment variables TEST_... say which.

The queues are alike: afterwards, each is looked after in another way.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import RedisQueueResource
from rmq_dagster.runs.identity import TIMED_OUT

CONFIG = LeasedConfig(lease=5, max_deliveries=5)  # short: one of the queues waits for its expiry
AFTERWARDS = ("status", "tick", "expiry")
LONG_S = 60


def fail(context: dg.OpExecutionContext) -> None:
    raise ValueError("as told")


def exhaust(context: dg.OpExecutionContext) -> None:
    raise MemoryError


def die(context: dg.OpExecutionContext) -> None:
    """What the kernel does to a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def be_told_to_stop(context: dg.OpExecutionContext) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LONG_S)


def be_terminated(context: dg.OpExecutionContext) -> None:
    """What a press of "Terminate" does."""
    context.instance.report_run_canceling(context.run)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(LONG_S)


def take_too_long(context: dg.OpExecutionContext) -> None:
    """What run monitoring does to a run that exceeds `dagster/max_runtime`."""
    context.instance.report_run_canceling(context.run, f"Canceling due to {TIMED_OUT} of 1 seconds.")
    be_terminated(context)


def be_deleted(context: dg.OpExecutionContext) -> None:
    context.instance.delete_run(context.run.run_id)
    raise ValueError("it cannot go on")


CAUSES: dict[str, Callable[[dg.OpExecutionContext], None]] = {
    "exception": fail,
    "memory error": exhaust,
    "timeout": take_too_long,
    "kill": die,
    "SIGTERM": be_told_to_stop,
    "termination": be_terminated,
    "deletion": be_deleted,
}


@dg.op
def suffer(context: dg.OpExecutionContext, redis_queue: RedisQueueResource) -> None:
    with ExitStack() as held:
        for after in AFTERWARDS:
            held.enter_context(redis_queue.claimed(context, f"{os.environ['TEST_QUEUE']}/{after}", config=CONFIG))
        CAUSES[os.environ["TEST_CAUSE"]](context)


RESOURCES = {"redis_queue": RedisQueueResource(url=dg.EnvVar("TEST_RMQ_URL"))}


@dg.job(executor_def=dg.in_process_executor, resource_defs=RESOURCES)
def run_worker() -> None:
    """Its step runs in the process of the run worker."""
    suffer()


@dg.job(executor_def=dg.multiprocess_executor, resource_defs=RESOURCES)
def step_worker() -> None:
    """Its step has a process of its own."""
    suffer()
