"""The Redis that `RMQ_URL` names, and the executor: all steps of a run (a job and its checks) share one process."""

from __future__ import annotations

import dagster as dg

from rmq_dagster import RedisQueueResource


@dg.definitions
def resources() -> dg.Definitions:
    redis_queue = RedisQueueResource(url=dg.EnvVar("RMQ_URL"))
    return dg.Definitions(resources={"redis_queue": redis_queue}, executor=dg.in_process_executor)
