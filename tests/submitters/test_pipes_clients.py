# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""What reaches a service when a client of Dagster Pipes starts a job: the lease in the extras, and no secret.

Real are the clients with the libraries of their services, the step that claims, and Redis. The service is a stub that
keeps the requests. What is in them then opens the context as a driver does, adopts the lease and acks it.
"""

import base64
import itertools
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import boto3
import dagster as dg
import pytest
from dagster_aws.pipes import (
    PipesEMRClient,
    PipesEMRContainersClient,
    PipesEMRServerlessClient,
    PipesGlueClient,
    PipesS3ContextInjector,
)
from dagster_databricks import PipesDatabricksClient
from dagster_databricks.pipes import PipesDatabricksServerlessClient
from dagster_gcp.pipes import PipesDataprocJobClient
from dagster_k8s import PipesK8sClient
from dagster_pipes import PipesCliArgsParamsLoader, PipesDefaultContextLoader, PipesMappingParamsLoader
from databricks.sdk import WorkspaceClient
from databricks.sdk.service import jobs
from google.auth.credentials import AnonymousCredentials
from google.cloud.dataproc_v1 import Job, JobControllerClient, PySparkJob
from google.cloud.dataproc_v1.services.job_controller.transports import JobControllerRestTransport

from rmq_core import LeasedQueue
from rmq_core.orchestrate import Handover
from rmq_dagster import RedisQueueResource
from tests.airflow.conftest import CANARY
from tests.submitters.stub_service import StubService

# The clients and the libraries of their services have deprecations and previews among themselves.
pytestmark = pytest.mark.filterwarnings("default")
TOKEN = "token-of-the-service-51c0"
SCRIPT = "s3://jobs/totals.py"
PODS = "/api/v1/namespaces/default/pods"
DATAPROC = "/v1/projects/project/regions/europe-west3/jobs"
DATABRICKS_RUN = "GET /api/2.?/jobs/runs/get"


def cluster(state: str) -> dict[str, Any]:
    return {"Cluster": {"Id": "j-1", "Status": {"State": state}}}


def run(life_cycle: str, result: str | None = None) -> dict[str, Any]:
    return {"run_id": 7, "state": {"life_cycle_state": life_cycle, "result_state": result}}


def pod() -> dict[str, Any]:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    status = {"name": "main", "ready": False, "restartCount": 0, "image": "i", "imageID": "i", "state": ended}
    return {"metadata": {"name": "pod"}, "status": {"phase": "Succeeded", "containerStatuses": [status]}}


def answers() -> dict[str, Any]:
    """The answers of services whose jobs succeed at once."""
    states = itertools.chain(["RUNNING", "RUNNING"], itertools.repeat("TERMINATED"))
    containers = {"id": "run", "virtualClusterId": "abc"}
    serverless = {"applicationId": "abc", "jobRunId": "run"}
    succeeded = {"jobUuid": "7", "done": True, "status": {"state": "DONE"}}
    return {
        "RunJobFlow": {"JobFlowId": "j-1"},
        "DescribeCluster": lambda *_: cluster(next(states)),
        "POST /virtualclusters/abc/jobruns": containers,
        "GET /virtualclusters/abc/jobruns/run": {"jobRun": {**containers, "state": "COMPLETED"}},
        "POST /applications/abc/jobruns": {**serverless, "arn": "arn:aws:x"},
        "GET /applications/abc/jobruns/run": {"jobRun": {**serverless, "state": "SUCCESS"}},
        "GET /applications/abc/jobruns/run/dashboard": {"url": "http://dashboard"},
        "GET /applications/abc": {"application": {"applicationId": "abc", "type": "Spark"}},
        "PUT /bucket/*": "",
        "DELETE /bucket/*": "",
        "StartJobRun": {"JobRunId": "run"},
        "GetJobRun": {"JobRun": {"Id": "run", "JobName": "totals", "JobRunState": "SUCCEEDED"}},
        "POST /api/2.0/dbfs/*": {},
        "PUT /api/2.0/fs/*": {},
        "GET /api/2.0/fs/directories/*": {"contents": []},
        "DELETE /api/2.0/fs/*": {},
        "POST /api/2.?/jobs/runs/submit": {"run_id": 7},
        "POST /api/2.?/jobs/runs/cancel": {},
        DATABRICKS_RUN: run("TERMINATED", "SUCCESS"),
        f"POST {DATAPROC}:submit": succeeded,
        f"GET {DATAPROC}/7": succeeded,
        f"POST {PODS}": pod(),
        f"GET {PODS}": {"kind": "PodList", "apiVersion": "v1", "items": [pod()]},
        f"DELETE {PODS}/*": pod(),
    }


class Submits(NamedTuple):
    """What a client needs in order to submit a job to the stub."""

    stub: StubService
    context: dg.AssetExecutionContext
    extras: Mapping[str, Any]
    folder: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.stub.port}"

    def aws(self, service: str) -> Any:
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": TOKEN}
        return boto3.client(service, endpoint_url=self.address, region_name="eu-west-1", **keys)

    def databricks(self) -> WorkspaceClient:
        return WorkspaceClient(host=self.address, token=TOKEN, auth_type="pat")

    def run(self, client: Any, **what: Any) -> None:
        client.run(context=self.context, extras=self.extras, **what)


def reader() -> dg.PipesTempFileMessageReader:
    return dg.PipesTempFileMessageReader()


def emr(to: Submits) -> None:
    step = {"Name": "totals", "ActionOnFailure": "TERMINATE_CLUSTER", "HadoopJarStep": {"Jar": "command-runner.jar"}}
    flow = {"Name": "totals", "Instances": {"InstanceCount": 1}, "Steps": [step]}
    to.run(PipesEMRClient(reader(), to.aws("emr")), run_job_flow_params=flow)


def emr_containers(to: Submits) -> None:
    driver = {"sparkSubmitJobDriver": {"entryPoint": SCRIPT}}
    start = {"virtualClusterId": "abc", "clientToken": "a", "jobDriver": driver}
    to.run(PipesEMRContainersClient(to.aws("emr-containers"), message_reader=reader()), start_job_run_params=start)


def emr_serverless(to: Submits) -> None:
    start = {
        "applicationId": "abc",
        "clientToken": "a",
        "executionRoleArn": "arn:aws:iam::123456789012:role/job",
        "jobDriver": {"sparkSubmit": {"entryPoint": SCRIPT}},
    }
    to.run(PipesEMRServerlessClient(to.aws("emr-serverless"), message_reader=reader()), start_job_run_params=start)


def glue(to: Submits) -> None:
    injector = PipesS3ContextInjector(bucket="bucket", client=to.aws("s3"))
    start = {"JobName": "totals", "Arguments": {"--table": "totals"}}
    to.run(PipesGlueClient(injector, reader(), to.aws("glue")), start_job_run_params=start)


def databricks(to: Submits) -> None:
    task = {
        "task_key": "totals",
        "new_cluster": {"spark_version": "17.3.x-scala2.13", "node_type_id": "m6g.large", "num_workers": 2},
        "spark_python_task": {"python_file": "dbfs:/jobs/totals.py"},
    }
    client = PipesDatabricksClient(to.databricks(), message_reader=reader(), poll_interval_seconds=0.2)
    to.run(client, task=jobs.SubmitTask.from_dict(task))


def databricks_serverless(to: Submits) -> None:
    script = {"python_file": "/Workspace/totals.py", "parameters": ["--table", "totals"]}
    task = {"task_key": "totals", "environment_key": "rmq", "spark_python_task": script}
    client = PipesDatabricksServerlessClient(to.databricks(), "/Volumes/a/b/c", message_reader=reader())
    to.run(client, task=jobs.SubmitTask.from_dict(task))


def dataproc(to: Submits) -> None:
    transport = JobControllerRestTransport(
        host=f"127.0.0.1:{to.stub.port}", url_scheme="http", credentials=AnonymousCredentials()
    )
    job = Job(pyspark_job=PySparkJob(main_python_file_uri="gs://jobs/totals.py", args=["--table", "totals"]))
    client = PipesDataprocJobClient(reader(), JobControllerClient(transport=transport))
    to.run(client, submit_job_params={"project_id": "project", "region": "europe-west3", "job": job})


def kubernetes(to: Submits) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stub",
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
        "clusters": [{"name": "stub", "cluster": {"server": to.address}}],
        "users": [{"name": "stub", "user": {"token": TOKEN}}],
    }
    (to.folder / "kube.json").write_text(json.dumps(config))
    client = PipesK8sClient(message_reader=reader(), kubeconfig_file=str(to.folder / "kube.json"))
    to.run(client, image="registry/totals:1", command=["spark-submit", "/opt/totals.py"], namespace="default")


def variables(given: Mapping[str, str]) -> Any:
    """Read the bootstrap of a session from environment variables, as a driver does."""
    return PipesMappingParamsLoader(given).load_context_params()


def arguments(given: Sequence[str]) -> Any:
    """Read the bootstrap of a session from parameters, as a driver does."""
    with patch.object(sys, "argv", ["totals.py", *given]):
        return PipesCliArgsParamsLoader().load_context_params()


def of_yarn(body: Any) -> Any:
    (defaults,) = [each for each in body["Configurations"] if each["Classification"] == "spark-defaults"]
    prefix = "spark.yarn.appMasterEnv."
    return variables({name.removeprefix(prefix): value for name, value in defaults["Properties"].items()})


def of_spark_env(body: Any) -> Any:
    found = body["configurationOverrides"]["applicationConfiguration"]
    (env,) = [each for each in found if each["classification"] == "spark-env"]
    return variables(env["configurations"][0]["properties"])


def of_confs(body: Any) -> Any:
    words = shlex.split(body["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"])
    prefix = "spark.emr-serverless.driverEnv."
    return variables(dict(word.removeprefix(prefix).split("=", 1) for word in words if word.startswith(prefix)))


Materialize = Callable[[StubService, Callable[[Submits], None]], bool]


class Contract(NamedTuple):
    """A client's submission, its request, and where that has the bootstrap of the session.

    stored: the request that stores the context, if the bootstrap only says where it is; and the context in its body.
    """

    submit: Callable[[Submits], None]
    request: str
    bootstrap: Callable[[Any], Any]
    stored: str | None = None
    decoded: Callable[[Any], Any] = lambda body: body


CONTRACTS = {
    "emr": Contract(emr, "RunJobFlow", of_yarn),
    "emr_containers": Contract(emr_containers, "POST /virtualclusters/abc/jobruns", of_spark_env),
    "emr_serverless": Contract(emr_serverless, "POST /applications/abc/jobruns", of_confs),
    "glue": Contract(
        glue, "StartJobRun", lambda body: arguments([*itertools.chain(*body["Arguments"].items())]), "PUT /bucket/*"
    ),
    "databricks": Contract(
        databricks,
        "POST /api/2.?/jobs/runs/submit",
        lambda body: variables(body["tasks"][0]["new_cluster"]["spark_env_vars"]),
        "POST /api/2.0/dbfs/put",
        lambda body: json.loads(base64.b64decode(body["contents"])),
    ),
    "databricks_serverless": Contract(
        databricks_serverless,
        "POST /api/2.?/jobs/runs/submit",
        lambda body: arguments(body["tasks"][0]["spark_python_task"]["parameters"]),
        "PUT /api/2.0/fs/files/*",
    ),
    "dataproc": Contract(
        dataproc, f"POST {DATAPROC}:submit", lambda body: arguments(body["job"]["pysparkJob"]["args"])
    ),
    "kubernetes": Contract(
        kubernetes,
        f"POST {PODS}",
        lambda body: variables({each["name"]: each["value"] for each in body["spec"]["containers"][0]["env"]}),
    ),
}


def received(contract: Contract, stub: StubService) -> Any:
    """Return the context that the driver of the request would open."""
    bootstrap = contract.bootstrap(stub.body(contract.request))
    if contract.stored is None:
        with PipesDefaultContextLoader().load_context(bootstrap) as context:
            return context
    place = bootstrap.get("key") or bootstrap["path"]
    stores = [body for name, body in stub.requests if fnmatchcase(name, contract.stored) and place in name + body]
    (stored,) = stores
    return contract.decoded(json.loads(stored))


@pytest.fixture
def redis_queue(secured_url: str) -> Iterator[RedisQueueResource]:
    resource = RedisQueueResource(url=secured_url, username="airflow", password=CANARY)
    yield resource
    resource.close()


@pytest.fixture
def materialize(redis_queue: RedisQueueResource, queue: LeasedQueue, tmp_path: Path) -> Materialize:
    """Run an asset that claims two messages and submits a job for them; return whether it succeeded."""

    def run(stub: StubService, submit: Callable[[Submits], None]) -> bool:
        queue.publish_many(["payload-of-a", "payload-of-b"])

        @dg.asset
        def totals(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
            with redis_queue.submitted(context, queue.name, secrets={"password": "aws:prod/redis#password"}) as batch:
                submit(Submits(stub, context, batch.extras, tmp_path))
                return dg.MaterializeResult(metadata=batch.metadata)

        return dg.materialize([totals], raise_on_error=False).success

    return run


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_request_holds_the_lease_and_no_secret(name: str, queue: LeasedQueue, materialize: Materialize) -> None:
    contract = CONTRACTS[name]

    def submit(to: Submits) -> None:
        contract.submit(to)
        context = received(contract, to.stub)
        shown = f"{to.stub.requests} {context}"
        assert CANARY not in shown
        assert "payload-of" not in shown
        handover = Handover.from_extras(context["extras"], resolve=lambda _: CANARY)
        assert handover.owner == to.context.run_id
        with LeasedQueue(handover.settings, handover.queue, handover.config) as adopting:
            lease = adopting.adopt(handover.lease_id, if_owner=handover.owner)
            assert lease.token not in shown
            assert adopting.ack(lease).settled == 2

    with StubService(answers()) as stub:
        assert materialize(stub, submit)
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_an_interrupt_that_a_client_does_not_raise_acks_nothing(queue: LeasedQueue, materialize: Materialize) -> None:
    """The client of Databricks cancels its run after an interrupt, and then returns as after a success."""

    def interrupted() -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return run("RUNNING")

    states = itertools.chain([interrupted], itertools.repeat(lambda: run("TERMINATED", "CANCELED")))

    def state(*_: str) -> Any:
        return next(states)()

    returned = []

    def submit(to: Submits) -> None:
        databricks(to)
        returned.append(True)

    with StubService({**answers(), DATABRICKS_RUN: state}) as stub:
        assert not materialize(stub, submit)
        assert any(name.endswith("/jobs/runs/cancel") for name, _ in stub.requests)
    assert returned
    assert [message.deliveries for message in queue.admin.peek(5)] == [1, 1]
