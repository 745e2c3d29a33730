"""The cost of a thousand waiting triggers in a triggerer: Airflow's own TriggerRunner under its own supervisor.

`python -m benchmarks.airflow_triggers` prints connections, and the CPU time above that of the same runner with as many
triggers that wait for an event which never comes. Each is measured idle, and while a thousand messages a second are
published to the watched queues, far fewer than the triggers wait for. No metadata database is involved.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import psutil
import redis

from rmq_core import LeasedQueue
from tests.airflow.home import prepare
from tests.servers import start_server

prepare()
from rmq_airflow.triggers.sensor import RedisQueueTrigger  # noqa: E402  Airflow reads its home when it is imported
from tests.airflow.triggerer import IdleTrigger, running  # noqa: E402

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

TRIGGERS, QUEUES, SETTLE_S = 1000, 100, 20.0
CLIENT = "triggerer"


class Measured(NamedTuple):
    """The numbers of a runner with its triggers, measured over some seconds."""

    cpu: float
    connections: int
    wakes: float
    """Checks of the backlog for each second and queue."""


def measure(triggers: list[BaseTrigger], port: int, seconds: float, load: Callable[[float], None]) -> Measured:
    """Measure CPU of the runner process, connections and backlog checks while `load` runs."""
    with running(triggers) as supervisor, redis.Redis(port=port) as client:
        time.sleep(SETTLE_S)
        process = psutil.Process(supervisor.pid)
        polls, used, began = _polls(client), _cpu_s(process), time.monotonic()
        load(seconds)
        took = time.monotonic() - began
        mine = [found for found in client.client_list() if found["name"] == CLIENT]
        return Measured((_cpu_s(process) - used) / took, len(mine), (_polls(client) - polls) / took / QUEUES)


def publishing(port: int, rate: int) -> Callable[[float], None]:
    """Return a load that publishes `rate` messages a second, one by one, to each queue in turn."""

    def load(seconds: float) -> None:
        with redis.Redis(port=port) as client:
            queues = [LeasedQueue(client, f"watched-{n}") for n in range(QUEUES)]
            began = time.monotonic()
            for n in range(int(rate * seconds)):
                queues[n % QUEUES].publish(str(n))
                ahead = began + n / rate - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)

    return load


def waiting(min_messages: int) -> list[BaseTrigger]:
    return [RedisQueueTrigger(f"watched-{n % QUEUES}", min_messages) for n in range(TRIGGERS)]


def idle() -> list[BaseTrigger]:
    return [IdleTrigger(n) for n in range(TRIGGERS)]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _polls(client: redis.Redis) -> int:
    """Return the backlog checks so far: the count of the one command that only a check sends, and sends once."""
    stats = client.info("commandstats")
    return int(stats.get("cmdstat_zremrangebyscore", {"calls": 0})["calls"])


def main(seconds: float = 30) -> None:
    server = start_server("7.0")
    location = {"conn_type": "redis_queue", "extra": {"url": f"{server.url}?client_name={CLIENT}"}}
    os.environ["AIRFLOW_CONN_REDIS_QUEUE_DEFAULT"] = json.dumps(location)
    try:
        nothing = measure(idle(), server.port, seconds, time.sleep)
        print(f"{'idle triggers':24} {nothing.cpu:6.1%} of a core")
        for name, load in (("idle", time.sleep), ("1,000 publishes/s", publishing(server.port, 1000))):
            found = measure(waiting(10_000), server.port, seconds, load)
            more = found.cpu - nothing.cpu
            print(f"{name:24} {found.cpu:6.1%} of a core, {more:+.1%}; {found.connections} connections, ", end="")
            print(f"{found.wakes:.2f} polls per second and queue")
            with redis.Redis(port=server.port) as client:
                client.flushall()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
