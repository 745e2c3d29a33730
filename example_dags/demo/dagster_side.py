"""The main job in Dagster: an instance of its own, and a real daemon that evaluates the sensor and launches the run."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg

from example_dags.demo.outcome import Outcome
from example_dags.demo.place import Place
from example_dags.demo.processes import Child
from example_dags.demo.progress import Progress
from example_dags.demo.watch import QueueWatch
from example_dags.flights import written

MODULE = "example_dags.flights_dagster"
QUEUE = "airport-days-dagster"
SETTINGS = "telemetry: {enabled: false}\n"
LOOK_S = 0.5
OVER = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
TOLD = {dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_UP_FOR_RETRY, dg.DagsterEventType.STEP_RESTARTED}


def run(place: Place, progress: Progress, *, crash: bool) -> Outcome:
    """Publish, then let the daemon do the rest. Raises ChildFailed when a run fails."""
    home, results = place.root / "dagster", place.root / "results" / "dagster"
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(SETTINGS)
    marker = home / "driver-killed" if crash else None
    tasks = home / "spark-tasks"
    env = _environment(place, home, results, marker) | {"RMQ_DEMO_TASKS": str(tasks)}
    with place.queue(QUEUE) as queue, dg.DagsterInstance.from_config(str(home)) as instance:
        progress.say("dagster", "materializing the asset airport_days, which publishes the items twice")
        with Child([*_program("dagster"), "asset", "materialize", "-m", MODULE, "--select", "airport_days"],
                   env, home / "publish.log") as publish:  # fmt: skip
            publish.wait()
        watch = QueueWatch("dagster", queue, progress, marker, tasks)
        watch.poll()
        progress.say("dagster", "starting the daemon, whose sensor requests a run when it finds ready items")
        with Child([*_program("dagster-daemon"), "run", "-m", MODULE], env, home / "daemon.log") as daemon:
            worked = Follower(instance, daemon, watch, progress).await_run()
        stats = queue.stats()
        report = Report(instance, worked)
        left = {"dead letters": stats.dead, "items left in the queue": stats.ready + stats.delayed + stats.leased}
        return Outcome(
            "Dagster", report.figures(results) | left, report.seconds(), results, results / "delays.png", watch.crash,
            watch.shards,
        )  # fmt: skip


def _environment(place: Place, home: Path, results: Path, marker: Path | None) -> dict[str, str]:
    crash = {"RMQ_DEMO_CRASH_MARKER": str(marker)} if marker else {}
    return {"DAGSTER_HOME": str(home), "RMQ_URL": place.redis_url, "RMQ_DEMO_RESULTS": str(results), **crash}


def _program(name: str) -> list[str]:
    return [str(Path(sys.executable).parent / name)]


class Follower:
    """Follow the run that the sensor requests, and report its progress."""

    def __init__(self, instance: dg.DagsterInstance, daemon: Child, watch: QueueWatch, progress: Progress) -> None:
        self._instance, self._daemon, self._watch, self._progress = instance, daemon, watch, progress
        self._reported = 0

    def await_run(self) -> dg.DagsterRun:
        """Wait until the run has succeeded, and return it. Raises ChildFailed if it fails or the daemon ends first."""
        while True:
            if not self._daemon.runs():
                raise self._daemon.failure("ended before the run did")
            self._watch.poll()
            if (run := self._look()) and run.status in OVER:
                break
            time.sleep(LOOK_S)
        if run.status is not dg.DagsterRunStatus.SUCCESS:
            raise self._daemon.failure(
                f"launched run {run.run_id}, which ended as {run.status.value}: {self._why(run)}"
            )
        return run

    def _why(self, run: dg.DagsterRun) -> str:
        events = [event.dagster_event for event in self._instance.all_logs(run.run_id)]
        errors = [getattr(event.event_specific_data, "error", None) for event in events if event]
        return "\n".join(error.to_string() for error in errors if error)

    def _look(self) -> dg.DagsterRun | None:
        runs = self._instance.get_runs(dg.RunsFilter(tags={"rmq/queue": QUEUE}), limit=1)
        if not runs:
            return None
        self._progress.watch("dagster", f"run {runs[0].run_id[:8]}", runs[0].status.value.lower())
        events = self._instance.all_logs(runs[0].run_id, of_type=TOLD)
        for event in events[self._reported :]:
            self._progress.say("dagster", (event.message or event.user_message).splitlines()[0])
        self._reported = len(events)
        return runs[0]


class Report:
    """Read Dagster's records: the metadata of both assets, and the times of the runs."""

    def __init__(self, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
        self._instance = instance
        self._run = run
        self._published = self._last("airport_days")
        self._worked = self._last("departure_delays")

    def figures(self, results: Path) -> dict[str, int]:
        """Return the item counts of Dagster's metadata, and the row counts of the files on disk."""
        rows = written(results)
        return {
            "items published": self._number(self._published, "published"),
            "duplicates refused": self._number(self._published, "deduplicated"),
            "items claimed": self._number(self._worked, "rmq/claimed"),
            "items acked": self._number(self._worked, "rmq/acked"),
            "rows written": rows["rows"],
            "rows written, United": rows["united_rows"],
        }

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each step; `wait` includes the start of the daemon, and `Spark` includes a retry."""
        published, (started, ended) = self._span(self._published.run_id), self._span(self._run.run_id)
        report = float(self._number(self._worked, "report_seconds"))
        return {
            "publish": published[1] - published[0],
            "wait": started - published[1],
            "Spark": ended - started - report,
            "report": report,
        }

    def _span(self, run_id: str) -> tuple[float, float]:
        (step,) = self._instance.get_run_step_stats(run_id)
        if step.start_time is None or step.end_time is None:
            raise RuntimeError(f"Dagster has no times of run {run_id}")
        return step.start_time, step.end_time

    def _last(self, asset: str) -> dg.EventLogEntry:
        event = self._instance.get_latest_materialization_event(dg.AssetKey(asset))
        if event is None:
            raise RuntimeError(f"Dagster has no materialization of {asset}")
        return event

    def _number(self, event: dg.EventLogEntry, name: str) -> Any:
        materialization = event.asset_materialization
        return materialization.metadata[name].value if materialization and name in materialization.metadata else -1
