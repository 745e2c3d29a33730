"""The main job in Airflow: a fresh AIRFLOW_HOME with SQLite, the example DAG in its folder, run by `dag.test()`."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from example_dags.demo.outcome import Outcome
from example_dags.demo.place import Place
from example_dags.demo.processes import Child
from example_dags.demo.progress import Progress
from example_dags.demo.watch import QueueWatch
from example_dags.flights import plot

QUEUE = "airport-days"
DAG_FILES = Path(__file__).parent.parent
LOOK_S = 0.5


class Try(NamedTuple):
    """One try of one task."""

    task: str
    number: int
    state: str
    start: datetime
    end: datetime | None


def run(place: Place, progress: Progress, *, crash: bool) -> Outcome:
    """Run the DAG to its end. Raises ChildFailed when it fails."""
    home, results = place.root / "airflow", place.root / "results" / "airflow"
    dags = _deploy(home / "dags")
    marker = home / "driver-killed" if crash else None
    tasks = home / "spark-tasks"
    env = _environment(place, home, results, marker) | {"RMQ_DEMO_TASKS": str(tasks)}
    progress.say("airflow", "creating Airflow's database (SQLite)")
    with Child([_program("airflow"), "db", "migrate"], env, home / "migrate.log") as migration:
        migration.wait()
    progress.say("airflow", "running the DAG flights_airflow: publish twice, wait, process in Spark, report")
    with place.queue(QUEUE) as queue, Child([sys.executable, str(dags)], env, home / "dag.log") as child:
        watch = QueueWatch("airflow", queue, progress, marker, tasks)
        while child.runs():
            _tell_tasks(home, progress)
            watch.poll()
            time.sleep(LOOK_S)
        if not (results / "airflow.json").exists():
            raise child.failure("ended before the task report had written its counts")
    return _outcome(home, results, watch)


def _deploy(dags: Path) -> Path:
    """Copy the example into the DAG folder, as a user would; return the path of the DAG."""
    (dags / "jobs").mkdir(parents=True)
    for name in ("flights.py", "flights_airflow.py", "jobs/delays.py"):
        shutil.copy(DAG_FILES / name, dags / name)
    return dags / "flights_airflow.py"


def _environment(place: Place, home: Path, results: Path, marker: Path | None) -> dict[str, str]:
    connections = {
        "AIRFLOW_CONN_REDIS_QUEUE_DEFAULT": json.dumps({"conn_type": "redis_queue", "host": place.redis_url}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
    }
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "RMQ_DEMO_RESULTS": str(results),
        **connections,
        **({"RMQ_DEMO_CRASH_MARKER": str(marker)} if marker else {}),
    }


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _tries(home: Path) -> list[Try]:
    """Return every try of every task, in the order they started."""
    query = """select task_id, try_number, state, start_date, end_date from {} where start_date is not null"""
    tables = ("task_instance_history", "task_instance")
    with sqlite3.connect(f"file:{home / 'airflow.db'}?mode=ro", uri=True, timeout=10) as database:
        rows = [row for table in tables for row in database.execute(query.format(table))]
    tries = {  # while a task waits for its retry, both tables have the try that failed
        (task, number): Try(task, number, state, datetime.fromisoformat(start), end and datetime.fromisoformat(end))
        for task, number, state, start, end in rows
    }
    return sorted(tries.values(), key=lambda one: one.start)


def _tell_tasks(home: Path, progress: Progress) -> None:
    for one in _tries(home):
        name = f"task {one.task}" if one.number == 1 else f"task {one.task}, try {one.number}"
        progress.watch("airflow", name, one.state)


def _outcome(home: Path, results: Path, watch: QueueWatch) -> Outcome:
    counts = json.loads((results / "airflow.json").read_text())
    figures = {
        "items published": counts["published"],
        "duplicates refused": counts["deduplicated"],
        "items claimed": counts["claimed"],
        "items acked": counts["acked"],
        "dead letters": counts["dead"],
        "items left in the queue": counts["ready"] + counts["leased"],
        "rows written": counts["rows"],
        "rows written, United": counts["united_rows"],
    }
    picture = plot(results, results / "delays.png")
    return Outcome("Airflow", figures, _seconds(home), results, picture, watch.crash, watch.shards)


def _seconds(home: Path) -> dict[str, float]:
    """Return the seconds of each step.

    `wait` is the time from the last publish to the start of the Spark task. `Spark` includes earlier tries of that task
    and the pauses between tries.
    """
    tries = _tries(home)

    def start(*tasks: str) -> datetime:
        return min(one.start for one in tries if one.task in tasks)

    def end(*tasks: str) -> datetime:
        return max(one.end for one in tries if one.task in tasks and one.end)

    publishing = ("publish", "publish_again")
    return {
        "publish": (end(*publishing) - start(*publishing)).total_seconds(),
        "wait": (start("delays") - end(*publishing)).total_seconds(),
        "Spark": (end("delays") - start("delays")).total_seconds(),
        "report": (end("report") - start("report")).total_seconds(),
    }
