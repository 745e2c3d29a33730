"""The contract with the Spark provider's cluster mode: real provider, real Redis, real driver processes; only YARN's
resource manager, the Kubernetes API and Spark's launcher are stand-ins.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as provider_hook
from airflow.providers.apache.spark.operators import spark_submit as provider_operator
from airflow.providers.common.compat.sdk import AirflowException, AirflowTaskTimeout

from rmq_airflow.cluster import SECRET_REFERENCE, write_properties
from rmq_airflow.killed import TaskKilled
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_core import ConfigurationError, LeasedConfig, LeaseLost
from rmq_core.orchestrate import handover
from tests.airflow.clusters import Jobs, Kubernetes, resource_manager
from tests.airflow.conftest import CANARY, QUEUE, MakeContext
from tests.airflow.drivers import DRIVER, LEASE_ID, OWNER, UNTOLD, Background, execution_timeout, gone
from tests.faults.patience import PATIENCE_S, eventually

SECRET_CONF = {f"{SECRET_REFERENCE}.RMQ_PASSWORD": "redis-queue:password"}

pytestmark = [
    pytest.mark.usefixtures("connection"),
    pytest.mark.filterwarnings("ignore::rmq_airflow.retries.ShortLeaseWarning"),
]


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    monkeypatch.setenv("CLUSTER_FOLDER", str(folder))
    monkeypatch.setenv("PATH", f"{Path(__file__).parent / 'bin_cluster'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    # the provider polls every ten and twenty seconds
    monkeypatch.setattr(provider_hook, "time", SimpleNamespace(sleep=lambda _: time.sleep(0.05)))
    monkeypatch.setattr(handover, "_LONGEST_PACE_S", 0.2)
    found = Jobs(folder)
    yield found
    found.kill_all()


@pytest.fixture
def yarn(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    with resource_manager(jobs) as address:
        extra = {"yarn_resourcemanager_webapp_address": address}
        connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        yield {"yarn_track_via_rm_api": True}


@pytest.fixture
def pods(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Kubernetes:
    client = Kubernetes(jobs)
    for module in (provider_hook, provider_operator):
        monkeypatch.setattr(module, "kube_client", client, raising=False)  # the provider may not be installed
    options = SimpleNamespace(V1DeleteOptions=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "kubernetes", SimpleNamespace(client=options))
    extra = {"namespace": "work"}
    connection = {"conn_type": "spark", "host": "k8s://https://cluster", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    return client


@pytest.fixture
def kubernetes(pods: Kubernetes, jobs: Jobs) -> dict[str, Any]:
    secret = jobs.folder / "secrets" / "redis-queue"
    secret.mkdir(parents=True)
    (secret / "password").write_text(CANARY)
    return {"track_driver_via_k8s_api": True, "conf": SECRET_CONF}


@pytest.fixture(params=["yarn", "kubernetes"])
def platform(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The operator's options for each platform."""
    return dict(request.getfixturevalue(request.param))


class Store(dict[str, Any]):
    """The state that Airflow 3.3 keeps for a task instance from one try to the next."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))

    def delete(self, key: str) -> None:
        self.pop(key, None)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def context(task_context: MakeContext, store: Store) -> Callable[..., Any]:
    def make(task: Any, **options: Any) -> Any:
        return {**task_context(task, **options), "task_state_store": store}

    return make


def operator(behaviour: str, marker: Path, options: dict[str, Any], **more: Any) -> RedisQueueSparkSubmitOperator:
    return RedisQueueSparkSubmitOperator(
        task_id="spark",
        redis_queue=QUEUE,
        application=str(DRIVER),
        application_args=[behaviour, str(marker)],
        deploy_mode="cluster",
        **{"retries": 2, **options, **more},
    )


@pytest.fixture
def lose_worker(
    queue: Any, marker: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[[RedisQueueSparkSubmitOperator], None]:
    """Simulate a try that dies right after it submitted its driver, without a request to Redis or the platform.

    Return when the driver is at work.
    """

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    def play(task: RedisQueueSparkSubmitOperator) -> None:
        queue.publish("a")
        with monkeypatch.context() as lost:
            lost.setattr(task, "poll_until_complete", die)
            for silent in ("_leave", "_end_remote", "_conclude"):
                lost.setattr(task, silent, lambda *_, **__: True)
            with pytest.raises(KeyboardInterrupt):
                task.execute(context(task))
        eventually(marker.exists)

    return play


def test_a_driver_on_the_cluster_adopts_and_acks(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs
) -> None:
    queue.publish_many(["a", "b"])
    task = operator("adopt_and_ack", marker, platform)
    report = task.execute(context(task))
    assert report == {"queue": QUEUE, "lease_id": LEASE_ID, "outcome": "acked", "claimed": 2, "acked": 2} | UNTOLD
    assert json.loads(marker.read_text()) == ["a", "b"]
    assert queue.settled(LEASE_ID).owner == OWNER.format(1)
    assert len(jobs.names) == 1


def test_the_retry_of_a_lost_worker_watches_the_driver_that_adopted(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs, lose_worker: Any
) -> None:
    task = operator("adopt_wait_ack", marker, platform)
    lose_worker(task)
    retry = operator("adopt_wait_ack", marker, platform)
    run = Reported(retry, context(retry, try_number=2))
    eventually(lambda: retry._hook is not None and retry._hook.job)
    marker.with_suffix(".go").touch()
    assert run.report() == {"queue": QUEUE, "lease_id": LEASE_ID, "outcome": "acked", "claimed": 1, "acked": 1} | UNTOLD
    assert queue.settled(LEASE_ID).owner == OWNER.format(1), "it was never taken from the driver"
    assert len(jobs.names) == 1


def test_the_retry_takes_the_lease_back_from_a_driver_that_has_not_adopted(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs, lose_worker: Any
) -> None:
    task = operator("wait_for_go", marker, platform)
    lose_worker(task)
    run = Reported(task, context(task, try_number=2))
    marker.with_suffix(".go").touch()
    assert run.report()["acked"] == 1
    assert len(jobs.names) == 1


def test_the_retry_stops_a_driver_whose_lease_has_a_new_owner(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs, lose_worker: Any
) -> None:
    task = operator("work", marker, platform)
    lose_worker(task)
    thief = queue.adopt(LEASE_ID, owner="thief")
    with pytest.raises(LeaseLost):
        task.execute(context(task, try_number=2))
    eventually(lambda: gone(marker))
    assert queue.ack(thief).settled == 1


def test_a_platform_that_does_not_answer_leaves_the_driver_to_the_retry(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs
) -> None:
    queue.publish("a")
    task = operator("adopt_wait_ack", marker, platform)
    run = Background(task, context(task))
    eventually(marker.exists)
    jobs.answering = False
    assert run.ended_with() is not None
    jobs.answering = True
    assert jobs.killed == []
    marker.with_suffix(".go").touch()
    eventually(lambda: queue.settled(LEASE_ID))
    again = task.execute(context(task, try_number=2))
    assert again["outcome"] == "already settled"
    assert len(jobs.names) == 1


def test_on_kill_ends_the_driver_on_the_cluster_and_keeps_the_lease(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs
) -> None:
    queue.publish("a")
    task = operator("work", marker, platform)
    run = Background(task, context(task))
    eventually(marker.exists)
    eventually(lambda: task._hook is not None and task._hook.job)
    task.on_kill()
    assert isinstance(run.ended_with(), (RuntimeError, AirflowException))
    eventually(lambda: gone(marker))
    assert queue.settled(LEASE_ID) is None
    assert queue.lease_info(LEASE_ID) is not None


# The alarm may interrupt a request of Airflow's hook to the resource manager; its socket then stays unclosed.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_timeout_ends_the_driver_as_airflow_would_and_keeps_the_lease_for_the_retry(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs
) -> None:
    queue.publish("a")
    retry_delay = timedelta(minutes=10)
    task = operator("adopt_and_work", marker, platform, retry_delay=retry_delay, queue_config=LeasedConfig(lease=5))
    with (
        pytest.raises(AirflowTaskTimeout),
        execution_timeout(lambda: marker.exists() and task._hook is not None and task._hook.job),
    ):
        task.execute(context(task))
    task.on_kill()  # as Airflow does in this case
    eventually(lambda: gone(marker))
    kept = queue.lease_info(LEASE_ID)
    assert kept.owner == OWNER.format(1)
    assert kept.deadline > datetime.now(UTC) + retry_delay
    again = operator("adopt_and_ack", marker, platform)
    assert again.execute(context(again, try_number=2))["acked"] == 1
    assert json.loads(marker.read_text()) == ["a"]


def test_a_task_that_a_user_ends_stops_its_driver_and_releases_without_polling_the_platform(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_term() -> None:
        eventually(lambda: marker.exists() and task._hook is not None and task._hook.job)
        os.kill(os.getpid(), signal.SIGTERM)

    queue.publish_many("ab")
    task = operator("adopt_and_work", marker, platform)
    monkeypatch.setattr(task, "poll_until_complete", lambda *_: time.sleep(2 * PATIENCE_S))
    before = signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    term = threading.Thread(target=send_term)
    term.start()
    try:
        with pytest.raises(TaskKilled):
            task.execute(context(task, state="restarting"))
    finally:
        signal.signal(signal.SIGTERM, before)
        term.join()
    assert [(message.payload, message.deliveries) for message in queue.admin.peek(5)] == [("a", 0), ("b", 0)]
    assert queue.stats().leases == 0
    eventually(lambda: gone(marker))


def test_the_driver_of_a_former_run_is_not_watched(
    platform: dict[str, Any],
    queue: Any,
    marker: Path,
    context: Any,
    jobs: Jobs,
    lose_worker: Callable[[RedisQueueSparkSubmitOperator], None],
) -> None:
    task = operator("adopt_and_ack", marker, platform)
    lose_worker(task)
    queue.publish("b")
    foreign = context(task, try_number=1, run_id="another")
    assert task.execute(foreign)["lease_id"] == "dag/another/spark/-1"
    assert len(jobs.names) == 2


def test_a_pod_that_was_deleted_is_no_success(
    kubernetes: dict[str, Any], pods: Kubernetes, queue: Any, marker: Path, context: Any, jobs: Jobs
) -> None:
    queue.publish("a")
    task = operator("work", marker, kubernetes)
    run = Background(task, context(task))
    eventually(marker.exists)
    pods.delete_namespaced_pod(jobs.names[0])
    assert "its result is unknown" in str(run.ended_with())
    assert queue.lease_info(LEASE_ID) is not None, "nothing was acked"


def test_without_durable_a_retry_submits_again_and_fences_the_former_driver_off(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs, store: Store
) -> None:
    queue.publish("a")
    task = operator("adopt_and_ack", marker, platform, durable=False)
    assert task.execute(context(task))["acked"] == 1
    assert store == {}


def test_on_yarn_credentials_are_passed_in_a_private_file_that_is_deleted_afterwards(
    yarn: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs, tmp_path: Path
) -> None:
    named = tmp_path / "mine.conf"
    named.write_text("spark.mine=yes\n")
    queue.publish("a")
    task = operator("adopt_and_ack", marker, yarn, properties_file=str(named))
    task.execute(context(task))
    path, mode, found = json.loads((jobs.folder / "properties").read_text())
    assert mode.endswith("600")
    assert found["spark.yarn.appMasterEnv.RMQ_PASSWORD"] == CANARY
    assert found["spark.mine"] == "yes"
    assert not Path(path).exists()
    assert task.properties_file == str(named)


def test_on_kubernetes_credentials_are_passed_only_in_a_secret(
    kubernetes: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs
) -> None:
    queue.publish("a")
    task = operator("adopt_and_ack", marker, kubernetes)
    task.execute(context(task))
    command = (jobs.folder / "command").read_text()
    assert CANARY not in command
    assert "spark.kubernetes.driverEnv.RMQ_HANDOVER=" in command


def test_on_kubernetes_a_password_without_a_secret_is_refused_before_anything_is_claimed(
    kubernetes: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs
) -> None:
    queue.publish("a")
    task = operator("adopt_and_ack", marker, {**kubernetes, "conf": {}})
    with pytest.raises(ConfigurationError, match=r"secretKeyRef\.RMQ_PASSWORD"):
        task.execute(context(task))
    assert queue.stats().ready == 1
    assert jobs.names == []


def test_no_password_is_in_a_command_line_the_state_store_or_a_rendered_field(
    platform: dict[str, Any], queue: Any, marker: Path, context: Any, jobs: Jobs, store: Store
) -> None:
    queue.publish("a")
    task = operator("adopt_and_ack", marker, platform)
    task.execute(context(task))
    assert store, "the store is not empty"
    assert CANARY not in (jobs.folder / "command").read_text()
    assert CANARY not in json.dumps(store)
    assert CANARY not in repr({name: getattr(task, name) for name in task.template_fields})
    assert "RMQ_HANDOVER" not in repr(task.conf)


@pytest.mark.parametrize("application", ["job.py", "job.jar"])
def test_standalone_cluster_mode_is_refused_when_the_dag_is_parsed(application: str) -> None:
    with pytest.raises(ConfigurationError, match="yarn_track_via_rm_api") as refused:
        RedisQueueSparkSubmitOperator(task_id="t", redis_queue=QUEUE, application=application, deploy_mode="cluster")
    assert ("runs no Python files" in str(refused.value)) == application.endswith(".py")


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn"])
def test_a_cluster_mode_of_the_connection_that_cannot_be_watched_is_refused_before_anything_is_claimed(
    master: str, queue: Any, marker: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "spark", "host": master, "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    queue.publish("a")
    task = RedisQueueSparkSubmitOperator(task_id="spark", redis_queue=QUEUE, application=str(DRIVER))
    with pytest.raises(ConfigurationError, match="deploy-mode"):
        task.execute(context(task))
    assert queue.stats().ready == 1


def test_a_properties_file_escapes_what_java_would_read_differently(tmp_path: Path) -> None:
    path = write_properties(tmp_path, {"a": " back\\slash", "b": "two\nlines"})
    assert path.read_text() == "a=\\ back\\\\slash\nb=two\\nlines\n"


class Reported(Background):
    """A thread that runs `execute` and keeps its result."""

    def _run(self, task: RedisQueueSparkSubmitOperator, context: Any) -> None:
        try:
            self.value = task.execute(context)
        except BaseException as error:  # a timeout is a BaseException
            self.error = error

    def report(self) -> Any:
        assert self.ended_with() is None
        return self.value
