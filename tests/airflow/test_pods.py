"""What a pod of the KubernetesExecutor gets, made by the executor's own code from the template that the page shows."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import yaml
from kubernetes.client import ApiClient, V1Container, V1EnvVar, V1Pod, V1PodSpec

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_core import LeasedQueue
from tests.airflow.home import ROOT
from tests.faults.patience import PATIENCE_S
from tests.servers.process import until

PAGE = ROOT / "docs" / "operations" / "airflow-executors.md"
GRACE_S = 900
TASK = ("etl", "monday", "consume", 3)
HELD = ("held", "monday", "work", -1)
TI = uuid.uuid4()


@pytest.fixture
def pod(tmp_path: Path) -> dict[str, Any]:
    """The request of a mapped task that wants a longer grace period and a second connection."""
    other = V1EnvVar(name="AIRFLOW_CONN_OTHER", value="redis-queue://other:6379/?db=0")
    changed = V1PodSpec(
        containers=[V1Container(name="base", env=[other])], termination_grace_period_seconds=GRACE_S
    )  # fmt: skip
    consume = RedisQueueConsumeOperator(
        task_id="consume",
        redis_queue="files",
        on_message=print,
        executor_config={"pod_override": V1Pod(spec=changed)},
    )
    return requested(tmp_path, TASK, "etl.py", "dags", consume.executor_config["pod_override"])


def requested(folder: Path, task: tuple[str, str, str, int], path: str, bundle: str, override: Any) -> dict[str, Any]:
    """Return the request that the executor sends to Kubernetes for the second try of a task."""
    from airflow.executors.workloads import ExecuteTask
    from airflow.executors.workloads.base import BundleInfo
    from airflow.executors.workloads.task import TaskInstanceDTO
    from airflow.providers.cncf.kubernetes.executors.kubernetes_executor_types import KubernetesJob
    from airflow.providers.cncf.kubernetes.executors.kubernetes_executor_utils import AirflowKubernetesScheduler
    from airflow.providers.cncf.kubernetes.kube_config import KubeConfig

    template = folder / "template.yaml"
    template.write_text(shown())
    dag_id, run_id, task_id, map_index = task
    instance = TaskInstanceDTO(
        id=TI, dag_version_id=TI, dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index, try_number=2,
        pool_slots=1, priority_weight=1,
    )  # fmt: skip
    workload = ExecuteTask(
        token="t", dag_rel_path=Path(path), bundle_info=BundleInfo(name=bundle), log_path=None, ti=instance
    )
    job = KubernetesJob(instance.key, [workload], override, str(template), "ours:1")
    scheduler: Any = SimpleNamespace(
        kube_config=KubeConfig(), namespace="airflow", scheduler_job_id="1", supports_task_instance_uuid=False,
        log=SimpleNamespace(info=print, debug=print),
    )  # fmt: skip
    made: dict[str, Any] = ApiClient().sanitize_for_serialization(
        AirflowKubernetesScheduler._build_pod_request(scheduler, job)
    )
    return made


def shown() -> str:
    (template,) = re.findall(
        r"^```yaml\n(apiVersion: v1\nkind: Pod\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return str(template)


def test_a_pod_gets_the_connection_of_the_queues_by_the_name_of_a_secret(pod: dict[str, Any]) -> None:
    (container,) = pod["spec"]["containers"]
    found = {variable.pop("name"): variable for variable in container["env"]}
    assert found["AIRFLOW_CONN_REDIS_QUEUE_DEFAULT"] == {
        "valueFrom": {"secretKeyRef": {"name": "rmq-connection", "key": "uri"}}
    }
    assert found["AIRFLOW_IS_K8S_EXECUTOR_POD"] == {"value": "True"}
    assert found["AIRFLOW_CONN_OTHER"]["value"].startswith("redis-queue://")  # added to those of the template
    assert container["image"] == "ours:1"


def test_a_pod_gets_the_name_of_its_lease_and_nothing_else_of_the_queue(pod: dict[str, Any]) -> None:
    (container,) = pod["spec"]["containers"]
    *command, workload = container["args"]
    assert command == ["python", "-m", "airflow.sdk.execution_time.execute_workload", "--json-string"]
    instance = json.loads(workload)["ti"]
    assert (instance["dag_id"], instance["run_id"], instance["task_id"], instance["map_index"]) == TASK
    assert instance["try_number"] == 2
    assert "files" not in json.dumps(pod)


def test_a_pod_has_the_grace_period_of_its_task_and_is_not_started_twice(pod: dict[str, Any]) -> None:
    assert yaml.safe_load(shown())["spec"]["terminationGracePeriodSeconds"] < GRACE_S
    assert pod["spec"]["terminationGracePeriodSeconds"] == GRACE_S
    assert pod["spec"]["restartPolicy"] == "Never"


class Api(BaseHTTPRequestHandler):
    """Airflow's API for tasks: it lets the task begin, says that its state is running, and accepts all else."""

    def log_message(self, *_: Any) -> None:
        """Write nothing."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        now = datetime.now(UTC).isoformat()
        dag_id, run_id, task_id, _ = HELD
        without = ("logical_date", "data_interval_start", "data_interval_end", "end_date", "partition_key")
        run = {"dag_id": dag_id, "run_id": run_id, "run_after": now, "start_date": now, "run_type": "manual"}
        dag_run = {**dict.fromkeys(without), **run, "state": "running", "consumed_asset_events": []}
        path = urlsplit(self.path).path
        said: dict[str, Any] | None = None
        if path.endswith("/run"):
            said = {"dag_run": dag_run, "max_tries": 3, "should_retry": True}
        elif path.endswith("/states"):
            said = {"task_states": {run_id: {task_id: "running"}}}
        body = b"" if said is None else json.dumps(said).encode()
        self.send_response(200 if body else 404 if self.command == "GET" else 204)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PATCH = do_PUT = do_POST = do_DELETE = _answer


@pytest.mark.slow
def test_the_signal_that_a_deleted_pod_gets_reaches_the_task_which_releases_its_messages(
    tmp_path: Path, airflow_database: None, connection: str, queue: LeasedQueue
) -> None:
    """Run what the pod runs, and stop it as Kubernetes does: it signals the first process.

    dumb-init, the first process in Airflow's image, passes the signal to the process group of the supervisor, in which
    the task is not.
    """
    queue.publish_many(["one", "two"])
    made = requested(tmp_path, HELD, "held.py", "tests", None)
    (container,) = made["spec"]["containers"]
    given = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    log = tmp_path / "log"
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as api, ThreadPoolExecutor(1) as pool:
        pool.submit(api.serve_forever)
        given["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] = f"http://127.0.0.1:{api.server_port}/execution/"
        with log.open("wb") as out:
            first = psutil.Popen(
                [sys.executable, *container["args"][1:]], env=os.environ | given, stdout=out, stderr=out
            )  # fmt: skip
        try:
            # A supervisor that gets the signal while it writes a line of its task deadlocks: Airflow's handler logs,
            # and structlog's lock of the file is not reentrant. So wait until it has written nothing for a second.
            until(lambda: queue.stats().leased == 2 or first.poll() is not None, PATIENCE_S)
            until(lambda: log.stat().st_mtime < time.time() - 1, PATIENCE_S)
            assert first.poll() is None, log.read_text()[-3000:]
            first.send_signal(signal.SIGTERM)
            first.wait(made["spec"]["terminationGracePeriodSeconds"])
        finally:
            if first.poll() is None:  # its task would go on without it
                for process in (*first.children(), first):
                    process.kill()
                first.wait()
            api.shutdown()
    assert queue.stats()[:4] == (2, 0, 0, 0), log.read_text()[-3000:]
    lease = queue.claim(max_messages=2)
    assert lease is not None
    assert [message.deliveries for message in lease.messages] == [1, 1]  # the stopped try is no failure
