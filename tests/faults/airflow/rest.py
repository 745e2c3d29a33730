"""What the tests ask of a deployed Airflow, in its REST API's words."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx

PATIENCE_S = 300


class TaskState(NamedTuple):
    """A task instance: `pid` is that of its process, when it has ever had one."""

    task_id: str
    state: str | None
    try_number: int
    pid: int | None


class Rest:
    """A client; `run` names a DAG run as `(dag_id, run_id)`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.Client(base_url=f"{url}/api/v2", timeout=PATIENCE_S)

    def close(self) -> None:
        self._client.close()

    def ready(self) -> bool:
        """Whether every part reports for duty and the DAGs are there."""
        if "authorization" not in self._client.headers:
            answer = httpx.get(f"{self._url}/auth/token", timeout=PATIENCE_S)
            self._client.headers["authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"
        health = self._ask("GET", "/monitor/health")
        errors = self._ask("GET", "/importErrors")["import_errors"]
        assert not errors, errors[0]["stack_trace"]
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        healthy = all(health[part]["status"] == "healthy" for part in parts)
        return bool(healthy and self._ask("GET", "/dags")["total_entries"])

    def trigger(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> None:
        """Start a run."""
        body = {"logical_date": None, "dag_run_id": run_id, "conf": conf}
        self._ask("POST", f"/dags/{dag_id}/dagRuns", json=body)

    def run_state(self, dag_id: str, run_id: str) -> str:
        """`queued`, `running`, `success` or `failed`."""
        return str(self._ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, TaskState]:
        """The tasks of a run."""
        found = self._ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {one["task_id"]: TaskState(one["task_id"], one["state"], one["try_number"], one["pid"]) for one in found}

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task and what comes after it."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self._ask("POST", f"/dags/{dag_id}/clearTaskInstances", json={**body, "include_downstream": True})

    def mark_failed(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Mark a task failed."""
        self.mark(dag_id, run_id, task_id, "failed")

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task `success`, `failed` or `skipped`."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        self._ask("PATCH", path, json={"new_state": state})

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        """Mark a run `success` or `failed`."""
        self._ask("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", json={"state": state})

    def delete_dag(self, dag_id: str) -> None:
        """Delete a DAG with all of its runs."""
        self._ask("DELETE", f"/dags/{dag_id}")

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What a task returned."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        return self._ask("GET", path, params={"deserialize": True})["value"]

    def enqueue_test(self, connection: dict[str, Any]) -> str:
        """Have a worker test a connection; what to ask `tested` for."""
        return str(self._ask("POST", "/connections/enqueue-test", json=connection)["token"])

    def tested(self, token: str) -> tuple[str, str | None]:
        """How the test of a connection stands, and what it said."""
        headers = {"Airflow-Connection-Test-Token": token}
        answer = self._ask("GET", "/connections/enqueue-test", headers=headers)
        return answer["state"], answer["result_message"]

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        answer = self._client.request(method, path, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None
