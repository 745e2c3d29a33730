"""What reaches a service when its operator submits a job: the lease that was handed over, and no secret.

Real are the operators with their hooks and clients, the rendering of their templates, the sensor and Redis. The service
is a stub that keeps the request. The parameters in that request then adopt the lease and ack it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from importlib import import_module, reload
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_core import LeasedQueue
from rmq_core.orchestrate import Handover
from tests.airflow.conftest import CANARY, MakeContext
from tests.submitters.stub_service import StubService

pytestmark = [
    pytest.mark.usefixtures("connection"),
    # The libraries of the services have deprecations among themselves.
    pytest.mark.filterwarnings("default"),
]
TOKEN = "token-of-the-service-51c0"
KUBERNETES = "POST /apis/sparkoperator.k8s.io/v1beta2/namespaces/default/sparkapplications"
ANSWERS = {
    "POST /api/2.2/jobs/runs/submit": {"run_id": 7},
    "GET /api/2.2/jobs/runs/get": {
        "run_page_url": "http://databricks/run/7",
        "state": {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS", "state_message": ""},
    },
    "POST /virtualclusters/abc/jobruns": {"id": "run", "virtualClusterId": "abc"},
    "GET /virtualclusters/abc/jobruns/run": {"jobRun": {"id": "run", "state": "COMPLETED"}},
    "GET /applications/abc": {"application": {"applicationId": "abc", "state": "STARTED"}},
    "POST /applications/abc/jobruns": {"applicationId": "abc", "jobRunId": "run", "arn": "arn:aws:x"},
    "GET /applications/abc/jobruns/run": {"jobRun": {"applicationId": "abc", "jobRunId": "run", "state": "SUCCESS"}},
    "GetJob": {"Job": {"Name": "totals"}},
    "StartJobRun": {"JobRunId": "run"},
    "GetJobRun": {"JobRun": {"Id": "run", "JobName": "totals", "JobRunState": "SUCCEEDED"}},
    "POST /batches": {"id": 3, "state": "starting"},
    "GET /batches/3": {"id": 3, "appId": "application_1", "state": "success"},
    "GET /batches/3/state": {"id": 3, "state": "success"},
    "GET /batches/3/log": {"id": 3, "from": 0, "total": 0, "log": []},
    "GET /api/v1/namespaces/default/pods": {"kind": "PodList", "apiVersion": "v1", "items": []},
}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StubService]:
    """A stub of all services, and connections of Airflow that lead to it."""
    with StubService(ANSWERS) as stub:
        address = f"http://127.0.0.1:{stub.port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "stub",
            "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
            "clusters": [{"name": "stub", "cluster": {"server": address}}],
            "users": [{"name": "stub", "user": {"token": TOKEN}}],
        }
        (tmp_path / "kube.json").write_text(json.dumps(config))
        aws = {"endpoint_url": address, "region_name": "eu-west-1"}
        connections = {
            "databricks": {"host": "127.0.0.1", "port": stub.port, "schema": "http", "password": TOKEN},
            "aws": {"login": "key", "password": TOKEN, "extra": aws},
            "livy": {"host": "127.0.0.1", "port": stub.port, "schema": "http"},
            "kubernetes": {"extra": {"kube_config_path": str(tmp_path / "kube.json")}},
        }
        for name, fields in connections.items():
            value = json.dumps({"conn_type": name, **fields})
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}_DEFAULT", value)
        yield stub


@pytest.fixture
def handed(queue: LeasedQueue, task_context: MakeContext) -> Callable[[Any], Any]:
    """Return a function that lets the sensor of a recipe claim two messages, and returns its output."""

    def claim(made: Any) -> Any:
        queue.publish_many(["payload-of-a", "payload-of-b"])
        return json.loads(json.dumps(made.execute(task_context(made))))

    return claim


def submit(operator: Any, handed: Any, context: Any, store: Any = None) -> None:
    """Render the templates of the operator and execute it, as a task would. store: Airflow's task state store."""
    ti = context["ti"]
    ti.xcom_pull = lambda task_ids: {"wait": handed}[task_ids]
    ti.xcom_push = lambda key, value: ti.pushed.update({key: value})
    context |= {"ts_nodash": "20261125T120000", "run_id": ti.run_id, "task_instance": ti, "task_state_store": store}
    context |= {"dag": SimpleNamespace(parent_dag=None), "params": {}}
    operator.render_template_fields(context)
    operator.execute(context)


def argv(arguments: dict[str, str]) -> list[str]:
    return [each for pair in arguments.items() for each in pair]


CONTRACTS: dict[str, tuple[str, Callable[[Any], list[str]]]] = {
    "databricks": ("POST /api/2.2/jobs/runs/submit", lambda body: body["spark_python_task"]["parameters"]),
    "emr_on_eks": (
        "POST /virtualclusters/abc/jobruns",
        lambda body: body["jobDriver"]["sparkSubmitJobDriver"]["entryPointArguments"],
    ),
    "emr_serverless": (
        "POST /applications/abc/jobruns",
        lambda body: body["jobDriver"]["sparkSubmit"]["entryPointArguments"],
    ),
    "glue": ("StartJobRun", lambda body: argv(body["Arguments"])),
    "livy": ("POST /batches", lambda body: body["args"]),
    "spark_kubernetes": (KUBERNETES, lambda body: body["spec"]["arguments"]),
}


def check(parameters: list[str], requests: str, handed: Any, queue: LeasedQueue) -> None:
    """The parameters adopt the lease that was handed over, and the requests show neither secret nor payload."""
    received = Handover.from_parameters(parameters, resolve=lambda _: CANARY)
    assert (received.lease_id, received.owner) == (handed["lease_id"], handed["owner"])
    assert "--table" in parameters
    assert CANARY not in requests
    assert "payload-of" not in requests
    with LeasedQueue(received.settings, received.queue, received.config) as adopting:
        lease = adopting.adopt(received.lease_id, if_owner=received.owner)
        assert lease.token not in requests
        assert adopting.ack(lease).settled == 2
    assert queue.stats()[:4] == (0, 0, 0, 0)


def tasks_of(name: str) -> tuple[Any, Any]:
    """Return the sensor and the operator of an example, made anew: an operator keeps the address of its service."""
    dag = reload(import_module(f"example_dags.submitters.{name}")).dag
    return dag.get_task("wait"), dag.get_task("submit")


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_request_holds_the_lease_and_no_secret(
    name: str, service: StubService, queue: LeasedQueue, handed: Any, task_context: MakeContext
) -> None:
    request, arguments = CONTRACTS[name]
    sensor, operator = tasks_of(name)
    claimed = handed(sensor)
    # The stub runs no driver: it refuses an application of Kubernetes, for whose pod the operator would wait.
    refused = pytest.raises(Exception, match="404") if name == "spark_kubernetes" else contextlib.nullcontext()
    with refused:
        submit(operator, claimed, task_context(operator))
    check(arguments(service.body(request)), str(service.requests), claimed, queue)


def test_a_batch_of_dataproc_holds_the_lease_and_no_secret(
    queue: LeasedQueue, handed: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.google.cloud.hooks.dataproc import DataprocHook
    from google.cloud.dataproc_v1 import Batch, CreateBatchRequest

    class ScriptedBatches:
        """The client of Dataproc, which speaks gRPC, replaced where the hook calls it."""

        def create_batch(self, request: Any, **_: Any) -> Any:
            self.request = CreateBatchRequest(request)
            return SimpleNamespace(metadata=SimpleNamespace(batch="projects/p/batches/b"))

        def get_batch(self, **_: Any) -> Batch:
            return Batch(state=Batch.State.SUCCEEDED)

    client = ScriptedBatches()
    monkeypatch.setattr(DataprocHook, "get_batch_client", lambda *_: client)
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps({"conn_type": "google_cloud_platform"}))
    sensor, operator = tasks_of("dataproc")
    claimed = handed(sensor)
    submit(operator, claimed, task_context(operator))
    assert client.request.batch_id == "totals-20261125t120000-1"
    check(list(client.request.batch.pyspark_batch.args), str(client.request), claimed, queue)


def test_a_durable_operator_of_a_cleared_run_submits_nothing_and_the_teardown_releases_what_was_claimed_for_it(
    service: StubService, queue: LeasedQueue, handed: Any, task_context: MakeContext
) -> None:
    sensor, operator = tasks_of("databricks")
    claimed = handed(sensor)
    submit(operator, claimed, task_context(operator), {operator.external_id_key: 7})  # it succeeded before the clear
    assert {name for name, _ in service.requests} == {"GET /api/2.2/jobs/runs/get"}
    conclude = RedisQueueSettleOperator(task_id="conclude", hand_over=claimed, action="conclude")
    report = conclude.execute(task_context(conclude))
    assert report is not None
    assert (report["action"], report["settled"]) == ("release", 2)


def test_every_example_has_a_contract() -> None:
    examples = {path.stem for path in (Path(__file__).parents[2] / "example_dags" / "submitters").glob("*.py")}
    assert examples == {*CONTRACTS, "dataproc"}
