"""The overhead of the Airflow provider over the core: `python -m benchmarks.airflow` writes build/measured/airflow.md.

Publishing: one operator's `execute` of 100,000 payloads alternates with `publish_many` of the core, on a server of its
own; the figure is the median of the ratios. Triggers: see `benchmarks.airflow_triggers`; resuming: see
`benchmarks.airflow_resume`; parsing: see `benchmarks.airflow_parsing`.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import redis

from benchmarks import airflow_resume as resume
from benchmarks import airflow_triggers as triggers  # makes an Airflow home, before anything imports airflow
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_core import LeasedQueue
from tests.servers import Server, start_server

PAGE = Path(__file__).parents[1] / "build" / "measured" / "airflow.md"
MESSAGES, ROUNDS, SECONDS = 100_000, 7, 30.0
PAYLOADS = [f"{number:08}".ljust(190, "x") for number in range(MESSAGES)]


class Row(NamedTuple):
    """A figure, its target, whether it reaches the target, and the numbers that it is computed from."""

    figure: str
    reached: str
    target: str
    met: bool
    rests_on: str


def publishing(server: Server) -> Row:
    """Compare one operator call with the core alone."""
    names = {"dag_id": "dag", "run_id": "run", "task_id": "publish", "map_index": -1, "try_number": 1}
    task = RedisQueuePublishOperator(task_id="publish", redis_queue="operator", messages=PAYLOADS, asset=None)
    context: Any = {"ti": SimpleNamespace(**names)}
    ratios, core_s = [], []
    with LeasedQueue(server.url, "core") as queue, redis.Redis(port=server.port) as client:
        for _ in range(ROUNDS):
            core_s.append(_seconds(lambda: queue.publish_many(PAYLOADS)))
            ratios.append(_seconds(lambda: task.execute(context)) / core_s[-1])
            client.flushall()
    ratio = statistics.median(ratios)
    rests_on = f"core {statistics.median(core_s):.2f} s; {min(ratios):.2f} to {max(ratios):.2f} in {ROUNDS} rounds"
    return Row(
        f"publish of {MESSAGES:,} by one operator call", f"{ratio:.2f} times the core", "< 2 times", ratio < 2, rests_on
    )


def waiting(server: Server) -> list[Row]:
    """Measure a thousand triggers, idle and while a thousand messages a second arrive."""
    nothing = triggers.measure(triggers.idle(), server.port, SECONDS, time.sleep)
    rows = []
    for name, load in (("idle", time.sleep), ("at 1,000 publishes/s", triggers.publishing(server.port, 1000))):
        found = triggers.measure(triggers.waiting(10_000), server.port, SECONDS, load)
        more, what = found.cpu - nothing.cpu, f"{triggers.TRIGGERS:,} triggers on {triggers.QUEUES} queues, {name}"
        cpu = f"{found.cpu:.1%} of a core; as many idle triggers {nothing.cpu:.1%}"
        rows.append(Row(f"{what}: CPU", f"{more:+.1%} of a core", "≤ 5 %", more <= 0.05, cpu))
        shared = f"{found.connections}"
        rows.append(Row(f"{what}: connections", shared, "≤ 5", found.connections <= 5, "one server"))
        polls = f"{found.wakes:.2f}/s"
        rows.append(Row(f"{what}: polls of a queue", polls, "≤ 10/s", found.wakes <= 10, "notifications are merged"))
        with redis.Redis(port=server.port) as client:
            client.flushall()
    return rows


def resuming(server: Server) -> Row:
    """Measure from a publish to the sensor's code on a worker; compare with Airflow's time to resume any trigger."""
    ours, airflows = resume.measure(server)
    median, slowest = statistics.median(ours), max(ours)
    return Row(
        f"resume after publish, deferrable sensor: the slowest of {len(ours)}",
        f"{slowest:.1f} s",
        "≤ 4 s",
        slowest <= 4,
        f"median {median:.1f} s; Airflow's own share, measured from the event of any trigger: median "
        f"{statistics.median(airflows):.1f} s, slowest {max(airflows):.1f} s",
    )


def parsing() -> Row:
    """Measure what RMQ's imports add to the parse of a DAG, in a process that has none of them."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.airflow_parsing"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs, ours = json.loads(said.splitlines()[-1])
    more, rests_on = ours - theirs, f"{ours:.0f} ms; with Airflow's own operators {theirs:.0f} ms"
    return Row("parse of a DAG with RMQ's operators: processor", f"{more:+.0f} ms", "≤ 300 ms", more <= 300, rests_on)


def page(rows: list[Row]) -> str:
    """The rows as a document."""
    met = {True: "yes", False: "no"}
    lines = [f"| {row.figure} | {row.reached} | {row.target} | {met[row.met]} | {row.rests_on} |" for row in rows]
    return "\n".join(
        [
            "# Cost of the Airflow provider",
            "",
            "`make airflow` compares one operator's `execute` with the core alone, in alternation. It compares",
            "Airflow's own `TriggerRunner` with our triggers and with idle triggers, both without a metadata database.",
            "Resuming is measured with a whole Airflow: scheduler, triggerer, API server, tasks on the LocalExecutor,",
            "PostgreSQL.",
            "",
            f"- Airflow {version('apache-airflow')}, Redis 7.0, Python {platform.python_version()}",
            f"- Machine: {os.cpu_count()} cores, {platform.system()}; run: {dt.datetime.now(dt.UTC):%Y-%m-%d}",
            "",
            "| figure | value | target | met | details |",
            "| --- | --- | --- | --- | --- |",
            *lines,
            "",
        ]
    )


def main() -> None:
    """Measure, print, and write the page."""
    server = start_server("7.0")
    location = {"conn_type": "redis_queue", "extra": {"url": f"{server.url}?client_name={triggers.CLIENT}"}}
    os.environ["AIRFLOW_CONN_REDIS_QUEUE_DEFAULT"] = json.dumps(location)
    try:
        text = page([publishing(server), *waiting(server), resuming(server), parsing()])
    finally:
        server.stop()
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, "utf-8")
    print(text)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
