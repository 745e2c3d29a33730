"""The time from a publish until a deferred sensor runs again, and Airflow's own share of it.

`python -m benchmarks.airflow_resume` prints both: Airflow's four parts on PostgreSQL, tasks on the LocalExecutor. The
sensor alternates with a task that waits for a trigger which fires by itself. The time starts at the publish, or at the
trigger's event, and ends when the task's code runs again on a worker. The DAGs are in `benchmarks/dags`.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from rmq_core import LeasedQueue
from tests.faults.airflow.deployment import Deployment
from tests.servers import Server, start_server
from tests.servers.postgres import running_postgres
from tests.servers.process import until

DAGS = Path(__file__).parent / "dags"
ROUNDS, PATIENCE_S = 10, 300


class Resumed(NamedTuple):
    """Seconds until the task ran again: with our trigger, and with one that fires by itself."""

    after_publish: list[float]
    after_event: list[float]


def measure(server: Server, rounds: int = ROUNDS) -> Resumed:
    """Run the DAGs alternately; an untimed run of each comes first, because it has to import everything."""
    connection = {"conn_type": "redis_queue", "host": "127.0.0.1", "port": server.port}
    found = Resumed([], [])
    with running_postgres() as database:
        extra = {"AIRFLOW_CONN_REDIS_QUEUE_DEFAULT": json.dumps(connection)}
        airflow = Deployment(database, extra, DAGS)
        try:
            for number in range(rounds + 1):
                found.after_publish.append(_after_publish(airflow, server, f"round-{number}"))
                found.after_event.append(_after_event(airflow, f"round-{number}"))
        finally:
            airflow.stop()
    return Resumed(found.after_publish[1:], found.after_event[1:])


def _after_publish(airflow: Deployment, server: Server, run_id: str) -> float:
    airflow.rest.trigger("published", run_id, {"queue": run_id})
    with LeasedQueue(server.url, run_id) as queue:
        until(lambda: queue.client.zscore(f"rmq:{{{run_id}}}:waiters", "*") is not None, PATIENCE_S)  # the trigger runs
        until(lambda: airflow.rest.tasks("published", run_id)["wait"].state == "deferred", PATIENCE_S, pace_s=0.2)
        time.sleep(random.uniform(1, 2))  # a random moment: the triggerer checks its triggers every second
        published = time.monotonic()
        queue.publish("work")
    return _returned(airflow, "published", run_id) - published


def _after_event(airflow: Deployment, run_id: str) -> float:
    airflow.rest.trigger("fired", run_id, {})
    return _returned(airflow, "fired", run_id)


def _returned(airflow: Deployment, dag_id: str, run_id: str) -> float:
    until(lambda: airflow.rest.run_state(dag_id, run_id) in ("success", "failed"), PATIENCE_S, pace_s=0.5)
    return float(airflow.rest.returned(dag_id, run_id, "wait"))


def main() -> None:
    server = start_server("7.0")
    try:
        for name, seconds in measure(server)._asdict().items():
            values = " ".join(f"{one:.2f}" for one in sorted(seconds))
            print(f"{name}: median {statistics.median(seconds):.2f} s; {values}")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
