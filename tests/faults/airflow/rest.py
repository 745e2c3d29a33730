"""The requests of the tests to a deployed Airflow, over its REST API."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

import httpx

PATIENCE_S = 300


class TaskState(NamedTuple):
    """A task instance; `pid` is that of its process, None before its first one."""

    task_id: str
    state: str | None
    try_number: int
    pid: int | None


class Rest:
    """A client; it gets its token at the first call of `ready`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.Client(base_url=f"{url}/api/v2", timeout=PATIENCE_S)

    def close(self) -> None:
        self._client.close()

    def ready(self, files: Collection[str]) -> bool:
        """Return whether every part is healthy and the DAGs of these files are loaded."""
        if "authorization" not in self._client.headers:
            answer = httpx.get(f"{self._url}/auth/token", timeout=PATIENCE_S)
            self._client.headers["authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"
        health = self._ask("GET", "/monitor/health")
        errors = self._ask("GET", "/importErrors")["import_errors"]
        assert not errors, errors[0]["stack_trace"]
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        healthy = all(health[part]["status"] == "healthy" for part in parts)
        loaded = {dag["relative_fileloc"] for dag in self._ask("GET", "/dags?limit=100")["dags"]}
        return healthy and loaded >= set(files)

    def trigger(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> None:
        """Start a run."""
        body = {"logical_date": None, "dag_run_id": run_id, "conf": conf}
        self._ask("POST", f"/dags/{dag_id}/dagRuns", json=body)

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return `queued`, `running`, `success` or `failed`."""
        return str(self._ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def runs(self, dag_id: str) -> dict[str, str]:
        """Return the state of each run of a DAG, by id."""
        found = self._ask("GET", f"/dags/{dag_id}/dagRuns?limit=1000")["dag_runs"]
        return {run["dag_run_id"]: run["state"] for run in found}

    def backfill(self, dag_id: str, first: datetime, last: datetime) -> int:
        """Start a backfill; return its id."""
        body = {"dag_id": dag_id, "from_date": first.isoformat(), "to_date": last.isoformat()}
        return int(self._ask("POST", "/backfills", json={**body, "run_backwards": False, "dag_run_conf": {}})["id"])

    def run_ended(self, dag_id: str, run_id: str) -> datetime:
        """Return when a run ended, or now if it has not ended."""
        ended = self._ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["end_date"]
        return datetime.fromisoformat(ended) if ended else datetime.now(UTC)

    def tasks(self, dag_id: str, run_id: str) -> dict[str, TaskState]:
        """Return the tasks of a run."""
        found = self._ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {one["task_id"]: TaskState(one["task_id"], one["state"], one["try_number"], one["pid"]) for one in found}

    def mapped(self, dag_id: str, run_id: str, task_id: str) -> dict[int, TaskState]:
        """Return the instances of a mapped task, by map index."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/listMapped"
        found = self._ask("GET", path)["task_instances"]
        return {one["map_index"]: TaskState(task_id, one["state"], one["try_number"], one["pid"]) for one in found}

    def clear(self, dag_id: str, run_id: str, task_id: str, map_index: int | None = None) -> None:
        """Clear a task, or one instance of a mapped one, and its downstream tasks."""
        chosen = task_id if map_index is None else [task_id, map_index]
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [chosen], "only_failed": False}
        self._ask("POST", f"/dags/{dag_id}/clearTaskInstances", json={**body, "include_downstream": True})

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str, map_index: int | None = None) -> None:
        """Mark a task, or one instance of a mapped one, success or failed."""
        instance = "" if map_index is None else f"/{map_index}"
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}{instance}"
        self._ask("PATCH", path, json={"new_state": state})

    def mark_failed(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Mark a task failed."""
        self.mark(dag_id, run_id, task_id, "failed")

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        """Mark a run `success` or `failed`."""
        self._ask("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", json={"state": state})

    def create_pool(self, name: str, slots: int) -> None:
        """Create a pool."""
        self._ask("POST", "/pools", json={"name": name, "slots": slots})

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Delete a finished run, and with it everything that Airflow stores about it."""
        self._ask("DELETE", f"/dags/{dag_id}/dagRuns/{run_id}")

    def delete_dag(self, dag_id: str) -> None:
        """Delete a DAG with all of its runs."""
        self._ask("DELETE", f"/dags/{dag_id}")

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """Return what a task returned."""
        return self.pushed(dag_id, run_id, task_id)["return_value"]

    def pushed(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """Return all XComs of a task, by key."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries"
        keys = [entry["key"] for entry in self._ask("GET", path)["xcom_entries"]]
        return {key: self._ask("GET", f"{path}/{key}", params={"deserialize": True})["value"] for key in keys}

    def page(self, path: str) -> Any:
        """Return the answer of the page *Queues* to a request below `/rmq`."""
        return self._client.get(f"{self._url}/rmq{path}").raise_for_status().json()

    def enqueue_test(self, connection: dict[str, Any]) -> str:
        """Let a worker test a connection; return the id for `tested`."""
        return str(self._ask("POST", "/connections/enqueue-test", json=connection)["token"])

    def tested(self, token: str) -> tuple[str, str | None]:
        """Return the state of the test of a connection, and its message."""
        headers = {"Airflow-Connection-Test-Token": token}
        answer = self._ask("GET", "/connections/enqueue-test", headers=headers)
        return answer["state"], answer["result_message"]

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        answer = self._client.request(method, path, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None
