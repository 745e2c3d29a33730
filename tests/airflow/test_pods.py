"""What a pod of the KubernetesExecutor gets, made by the executor's own code from the template that the page shows."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient, V1Pod, V1PodSpec

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from tests.airflow.home import ROOT

PAGE = ROOT / "docs" / "operations" / "airflow-executors.md"
GRACE_S = 900
TASK = ("etl", "monday", "consume", 3)
TI = uuid.uuid4()


@pytest.fixture
def pod(tmp_path: Path) -> dict[str, Any]:
    """The request that the executor sends to Kubernetes for a mapped task that wants a longer grace period."""
    from airflow.executors.workloads import ExecuteTask
    from airflow.executors.workloads.base import BundleInfo
    from airflow.executors.workloads.task import TaskInstanceDTO
    from airflow.providers.cncf.kubernetes.executors.kubernetes_executor_types import KubernetesJob
    from airflow.providers.cncf.kubernetes.executors.kubernetes_executor_utils import AirflowKubernetesScheduler
    from airflow.providers.cncf.kubernetes.kube_config import KubeConfig

    template = tmp_path / "template.yaml"
    template.write_text(shown())
    consume = RedisQueueConsumeOperator(
        task_id="consume",
        redis_queue="files",
        on_message=print,
        executor_config={
            "pod_override": V1Pod(spec=V1PodSpec(containers=[], termination_grace_period_seconds=GRACE_S))
        },
    )
    dag_id, run_id, task_id, map_index = TASK
    instance = TaskInstanceDTO(
        id=TI, dag_version_id=TI, dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index, try_number=2,
        pool_slots=1, priority_weight=1,
    )  # fmt: skip
    workload = ExecuteTask(
        token="t", dag_rel_path=Path("etl.py"), bundle_info=BundleInfo(name="dags"), log_path=None, ti=instance
    )
    job = KubernetesJob(instance.key, [workload], consume.executor_config["pod_override"], str(template), "ours:1")
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
