"""A worker is killed after it has submitted a job, and a job is cancelled: what the retry finds, and who has the lease.

Airflow with its scheduler and its executor, the examples with their operators, and Redis are real. The service is a
stub whose jobs adopt their lease and end when a test says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import psutil
import pytest

from rmq_core import LeasedQueue, LeaseLost
from rmq_core.orchestrate import Handover
from tests.airflow.conftest import CANARY, QUEUE
from tests.faults.airflow.deployment import Deployment
from tests.servers import Server, start_server
from tests.servers.postgres import running_postgres
from tests.servers.process import until
from tests.submitters.stub_service import StubService

PATIENCE_S = 400
EMR, DATABRICKS = "totals_on_emr_on_eks", "totals_on_databricks"
JOB_RUNS = "/virtualclusters/abc/jobruns"
STEPS = ("killed before the adoption", "killed while it polls", "cancelled")


class Job:
    """A job of the service, and its driver, which the test lets adopt and end. `polls`: how often it was asked for."""

    def __init__(self, parameters: list[str]) -> None:
        self.handover = Handover.from_parameters(parameters, resolve=lambda _: CANARY)
        self.queue = LeasedQueue(self.handover.settings, self.handover.queue, self.handover.config)
        self.polls, self.succeeded, self.cancelled = 0, False, False

    def adopt(self) -> None:
        # As long as a heartbeat would extend it.
        self.lease = self.queue.adopt(self.handover.lease_id, if_owner=self.handover.owner, lease=3600)

    def end(self) -> None:
        self.queue.ack(self.lease)
        self.succeeded = True


class Service:
    """The jobs of Databricks and of EMR on EKS, whose numbers begin at 1."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.answers: Mapping[str, Any] = {
            "POST /api/2.2/jobs/runs/submit": lambda _, body: {"run_id": self._add(_of_databricks(body))},
            "GET /api/2.2/jobs/runs/get": lambda _, query: _run(self._polled(parse_qs(query)["run_id"][0])),
            "POST /api/2.2/jobs/runs/cancel": lambda _, body: self._cancel(json.loads(body)["run_id"]),
            f"POST {JOB_RUNS}": lambda _, body: {"id": str(self._add(_of_emr(body))), "virtualClusterId": "abc"},
            f"GET {JOB_RUNS}/*": lambda name, _: _job_run(self._polled(name.rpartition("/")[2])),
            f"DELETE {JOB_RUNS}/*": lambda name, _: self._cancel(name.rpartition("/")[2]),
        }

    def of(self, lease_id: str) -> list[Job]:
        return [job for job in self.jobs if job.handover.lease_id == lease_id]

    def _add(self, parameters: list[str]) -> int:
        self.jobs.append(Job(parameters))
        return len(self.jobs)

    def _polled(self, number: str) -> Job:
        job = self.jobs[int(number) - 1]
        job.polls += 1
        return job

    def _cancel(self, number: str | int) -> Any:
        self.jobs[int(number) - 1].cancelled = True
        return {"id": str(number), "virtualClusterId": "abc"}


def _of_databricks(body: str) -> list[str]:
    return list(json.loads(body)["spark_python_task"]["parameters"])


def _of_emr(body: str) -> list[str]:
    return list(json.loads(body)["jobDriver"]["sparkSubmitJobDriver"]["entryPointArguments"])


def _run(job: Job) -> Any:
    ended = {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}
    state = ended if job.succeeded else {"life_cycle_state": "RUNNING"}
    return {"run_page_url": "http://databricks/run", "state": {"state_message": "", **state}}


def _job_run(job: Job) -> Any:
    return {"jobRun": {"id": "run", "state": "COMPLETED" if job.succeeded else "RUNNING"}}


class Round:
    """A run of an example whose task `submit` meets a fault."""

    def __init__(self, airflow: Deployment, service: Service, queue: LeasedQueue, dag_id: str, step: str) -> None:
        self.airflow, self.service, self.queue, self.step = airflow, service, queue, step
        self.run = (dag_id, step.replace(" ", "-"))
        self.lease_id = f"{dag_id}/{self.run[1]}/wait/-1"

    @property
    def jobs(self) -> list[Job]:
        return self.service.of(self.lease_id)

    @property
    def submit(self) -> Any:
        return self.airflow.rest.tasks(*self.run)["submit"]

    @property
    def left_s(self) -> float:
        """The seconds until the lease expires."""
        info = self.queue.lease_info(self.lease_id)
        assert info is not None
        assert info.deadline is not None
        return info.deadline.timestamp() - time.time()

    def begin(self) -> None:
        """Return when the operator has submitted a job for two messages, and polls it."""
        self.queue.publish_many([f"{self.run} {number}" for number in range(2)])
        self.airflow.rest.trigger(*self.run, {})
        until(lambda: self.jobs and self.jobs[0].polls, PATIENCE_S, pace_s=0.5)
        if self.step != STEPS[0]:
            self.jobs[0].adopt()

    def befall(self) -> None:
        if self.step == "cancelled":
            self.airflow.rest.mark_failed(*self.run, "submit")
            return
        task = psutil.Process(self.submit.pid)
        supervisor = psutil.Process(task.ppid())
        assert supervisor.name().startswith("airflow worker"), supervisor
        self.left_after_kill = self.left_s
        for process in (supervisor, task):
            process.kill()
        self.polls_before = self.jobs[0].polls

    def await_retry(self) -> None:
        """Return when the next try of the operator polls a job: its own, or that of the try before."""
        if self.step != "cancelled":
            own = self.run[0] == EMR
            until(lambda: len(self.jobs) > 1 if own else self.jobs[0].polls > self.polls_before, PATIENCE_S, pace_s=0.5)
            assert self.submit.try_number == 2

    def await_end(self) -> None:
        until(lambda: self.airflow.rest.run_state(*self.run) in ("success", "failed"), PATIENCE_S, pace_s=1)

    def concluded(self) -> Any:
        """Return what the teardown reports."""
        return self.airflow.rest.returned(*self.run, "conclude")

    def deliveries(self) -> list[int]:
        """Return how often each of its messages that are ready was delivered."""
        return [each.deliveries for each in self.queue.admin.peek(100) if str(each.payload).startswith(str(self.run))]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A Redis with a user whose password is the canary."""
    redis = start_server("7.0")
    with redis.client() as client:
        client.execute_command("ACL", "SETUSER", "airflow", "reset", "on", f">{CANARY}", "~*", "&*", "+@all")
    yield redis
    redis.stop()


def environment_of(redis: Server, stub: StubService) -> dict[str, str]:
    here = {"host": "127.0.0.1", "port": stub.port}
    aws = {"endpoint_url": f"http://127.0.0.1:{stub.port}", "region_name": "eu-west-1"}
    queues = {"host": "127.0.0.1", "port": redis.port, "login": "airflow", "password": CANARY}
    connections = {
        "REDIS_QUEUE": {"conn_type": "redis_queue", **queues},
        "DATABRICKS": {"conn_type": "databricks", **here, "schema": "http", "password": "token"},
        "AWS": {"conn_type": "aws", "login": "key", "password": "token", "extra": aws},
    }
    given = {f"AIRFLOW_CONN_{name}_DEFAULT": json.dumps(fields) for name, fields in connections.items()}
    retries = {"DEFAULT_TASK_RETRIES": "1", "DEFAULT_TASK_RETRY_DELAY": "1"}
    return {**given, **{f"AIRFLOW__CORE__{name}": value for name, value in retries.items()}}


@pytest.fixture(scope="module")
def rounds(server: Server) -> Iterator[dict[tuple[str, str], Round]]:
    """Let each fault befall a run of each example; all wait for their retry at the same time."""
    service = Service()
    with (
        StubService(service.answers) as stub,
        running_postgres() as database,
        LeasedQueue(server.url, QUEUE) as queue,
    ):
        airflow = Deployment(database, environment_of(server, stub), Path(__file__).parent / "dags")
        made = {
            (dag_id, step): Round(airflow, service, queue, dag_id, step)
            for dag_id in (DATABRICKS, EMR)
            for step in STEPS
        }
        try:
            for each in made.values():
                each.begin()
            for each in made.values():
                each.befall()
            for each in made.values():
                each.await_retry()
            yield made
        finally:
            airflow.stop()
            for job in service.jobs:
                job.queue.close()


@pytest.mark.parametrize("step", STEPS[:2])
def test_a_retry_polls_the_run_of_databricks_again_and_its_driver_keeps_the_lease(rounds: Any, step: str) -> None:
    found = rounds[DATABRICKS, step]
    (job,) = found.jobs
    if step == STEPS[0]:
        assert found.left_after_kill > 3000  # no process extends the lease; it lasts as long as `hand_over`
        job.adopt()
    job.end()
    found.await_end()
    assert (found.airflow.rest.run_state(*found.run), found.concluded()["settled"]) == ("success", 0)
    assert found.queue.settled(found.lease_id).acked == 2
    assert found.submit.try_number == 2


@pytest.mark.parametrize("step", STEPS[:2])
def test_a_retry_submits_another_job_of_emr_which_fences_the_driver_of_the_first_off(rounds: Any, step: str) -> None:
    found = rounds[EMR, step]
    former, retry = found.jobs
    if step == STEPS[0]:
        assert found.left_after_kill > 3000
        former.adopt()  # the service starts both jobs, one after the other
    retry.adopt()
    with pytest.raises(LeaseLost):
        former.end()
    assert [message.deliveries for message in retry.queue.messages(retry.lease)] == [1, 1]
    retry.end()
    found.await_end()
    assert (found.airflow.rest.run_state(*found.run), found.concluded()["settled"]) == ("success", 0)
    assert found.queue.settled(found.lease_id).acked == 2


@pytest.mark.parametrize("dag_id", [DATABRICKS, EMR])
def test_a_cancelled_task_cancels_its_job_and_the_teardown_fences_its_driver_off(rounds: Any, dag_id: str) -> None:
    found = rounds[dag_id, "cancelled"]
    until(lambda: found.jobs[0].cancelled, PATIENCE_S, pace_s=0.5)
    found.await_end()
    report = found.concluded()
    assert (report["action"], report["settled"]) == ("nack", 2)
    with pytest.raises(LeaseLost):
        found.jobs[0].end()  # a service takes its time to stop a job
    assert found.deliveries() == [1, 1]
