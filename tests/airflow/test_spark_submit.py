"""The operator against a real Redis and real driver processes; only Spark's launcher is a stand-in without a JVM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk.exceptions import AirflowTaskTimeout

from rmq_airflow import cluster
from rmq_airflow.killed import TaskKilled
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_core import ConfigurationError, LeasedConfig, LeaseLost, LeftUnsettled
from rmq_core.orchestrate import handover
from rmq_core.orchestrate import handover as lease_watch
from tests.airflow.conftest import CANARY, QUEUE, MakeContext
from tests.airflow.drivers import DRIVER, LEASE_ID, OWNER, UNTOLD, Background, execution_timeout, gone
from tests.faults.patience import PATIENCE_S, eventually

SHORT = LeasedConfig(lease=1.5, max_deliveries=5)

pytestmark = [
    pytest.mark.usefixtures("connection", "spark_submit"),
    pytest.mark.filterwarnings("ignore::rmq_airflow.retries.ShortLeaseWarning"),
]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_LONGEST_PACE_S", 0.2)


def operator(behaviour: str, marker: Path, **options: Any) -> RedisQueueSparkSubmitOperator:
    settings = {"retries": 2, "retry_delay": timedelta(seconds=7), **options}
    return RedisQueueSparkSubmitOperator(
        task_id="spark",
        redis_queue=QUEUE,
        application=str(DRIVER),
        application_args=[behaviour, str(marker)],
        **settings,
    )


def test_a_driver_that_adopts_acks_itself_and_the_operator_reports_it(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish_many(["a", "b", "c"])
    task = operator("adopt_and_ack", marker)
    report = task.execute(task_context(task))
    assert report == {"queue": QUEUE, "lease_id": LEASE_ID, "outcome": "acked", "claimed": 3, "acked": 3} | UNTOLD
    assert json.loads(marker.read_text()) == ["a", "b", "c"]
    assert queue.settled(LEASE_ID).owner == OWNER.format(1)
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_the_operator_holds_and_acks_for_a_job_without_rmq(queue: Any, marker: Path, task_context: MakeContext) -> None:
    queue.publish_many(["a", "b"])
    task = operator("touch", marker)
    assert task.execute(task_context(task))["acked"] == 2
    assert queue.settled(LEASE_ID).acked == 2


def test_the_operator_extends_a_lease_shorter_than_a_job_that_never_adopts(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("nap", marker, queue_config=LeasedConfig(lease=0.6))
    assert task.execute(task_context(task))["outcome"] == "acked"


def test_a_clear_after_success_submits_nothing_again(queue: Any, marker: Path, task_context: MakeContext) -> None:
    queue.publish("a")
    task = operator("adopt_and_ack", marker)
    task.execute(task_context(task))
    marker.unlink()
    queue.publish("b")
    report = task.execute(task_context(task, try_number=2))
    assert (report["lease_id"], report["outcome"], report["claimed"], report["acked"]) == (
        LEASE_ID, "already settled", 0, 1
    )  # fmt: skip
    assert report["settled_before"] is True
    assert not marker.exists()
    assert queue.stats().ready == 1


def test_a_failed_driver_keeps_the_lease_for_the_retry(queue: Any, marker: Path, task_context: MakeContext) -> None:
    queue.publish("a")
    task = operator("adopt_and_fail", marker, retry_delay=timedelta(hours=10))
    with pytest.raises(AirflowException, match="Error code is: 3"):
        task.execute(task_context(task))
    info = queue.lease_info(LEASE_ID)
    assert info.owner == OWNER.format(1)
    left_s = info.deadline.timestamp() - time.time()
    assert left_s == pytest.approx(36_000 + 300, abs=PATIENCE_S)
    assert queue.backlog().ready == 0


def test_the_retry_of_a_killed_driver_gets_the_same_messages(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish_many(["a", "b", "c"])
    task = operator("die_once", marker)
    with pytest.raises(AirflowException):
        task.execute(task_context(task))
    queue.publish("later")
    report = task.execute(task_context(task, try_number=2))
    assert (report["claimed"], report["acked"]) == (3, 3)
    assert json.loads(marker.read_text()) == ["a", "b", "c"]
    assert queue.settled(LEASE_ID).owner == OWNER.format(2)
    assert queue.stats().ready == 1


def test_the_last_failed_try_nacks_the_messages_with_a_counted_delivery(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("adopt_and_fail", marker)
    with pytest.raises(AirflowException):
        task.execute(task_context(task, try_number=3, max_tries=2))
    assert queue.lease_info(LEASE_ID) is None
    (message,) = queue.claim().messages
    assert message.deliveries == 2
    assert message.history[0].reason == "AirflowException"
    assert message.history[0].owner == OWNER.format(3)


def test_a_driver_that_succeeds_without_settling_its_adopted_lease_fails_the_task(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("adopt_and_leave", marker)
    with pytest.raises(LeftUnsettled, match="left messages unsettled"):
        task.execute(task_context(task))
    assert queue.lease_info(LEASE_ID).owner == OWNER.format(1), "kept for the retry"


def test_a_lease_taken_over_by_others_stops_the_driver_and_nothing_is_acked(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("work", marker, queue_config=SHORT)
    run = Background(task, task_context(task))
    eventually(marker.exists)
    thief = queue.adopt(LEASE_ID, owner="thief")
    assert isinstance(run.ended_with(), LeaseLost)
    eventually(lambda: gone(marker))
    assert queue.settled(LEASE_ID) is None
    assert queue.lease_info(LEASE_ID).owner == "thief"
    assert queue.ack(thief).settled == 1


def test_a_lease_taken_over_from_a_driver_that_adopted_stops_that_driver_too(
    queue: Any, marker: Path, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_watch, "EXIT_GRACE_S", 0.5)
    queue.publish("a")
    task = operator("adopt_and_work", marker, queue_config=SHORT)
    run = Background(task, task_context(task))
    eventually(marker.exists)
    time.sleep(1.5)  # until the submitter's own heartbeat has noticed the adoption
    queue.adopt(LEASE_ID, owner="thief")
    assert isinstance(run.ended_with(), LeaseLost)
    eventually(lambda: gone(marker))
    assert queue.lease_info(LEASE_ID).owner == "thief"


def test_an_adoption_by_the_operators_own_driver_is_not_a_loss(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("adopt_and_work", marker, queue_config=SHORT)
    run = Background(task, task_context(task))
    eventually(marker.exists)
    time.sleep(3 * 1.5)
    assert not gone(marker)
    task.on_kill()
    assert isinstance(run.ended_with(), AirflowException)


def test_on_kill_kills_the_driver_without_waiting(queue: Any, marker: Path, task_context: MakeContext) -> None:
    queue.publish("a")
    task = operator("work", marker)
    run = Background(task, task_context(task))
    eventually(marker.exists)
    guard = eventually(lambda: task._guard)._process
    guard.send_signal(signal.SIGSTOP)
    task.on_kill()
    task.on_kill()
    assert not gone(marker), "the guard would have ended it"
    guard.send_signal(signal.SIGCONT)
    assert isinstance(run.ended_with(), AirflowException)
    assert gone(marker)
    assert queue.lease_info(LEASE_ID) is not None, "kept for the retry"


@pytest.mark.parametrize("behaviour", ["work", "adopt_and_work"])
def test_a_task_that_a_user_ends_kills_its_driver_before_it_releases_the_messages(
    behaviour: str, queue: Any, marker: Path, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_back(submission: Any) -> bool:
        assert gone(marker)
        return original(submission)

    original = handover.Submission.give_back
    monkeypatch.setattr(handover.Submission, "give_back", give_back)
    queue.publish_many("ab")
    task = operator(behaviour, marker)
    run = Background(task, task_context(task, state="restarting"))
    eventually(marker.exists)
    task.on_kill()
    assert isinstance(run.ended_with(), AirflowException)
    assert [(message.payload, message.deliveries) for message in queue.admin.peek(5)] == [("a", 0), ("b", 0)]
    assert queue.stats().leases == 0


def test_a_lost_heartbeat_counts_as_a_failed_delivery(queue: Any, marker: Path, task_context: MakeContext) -> None:
    queue.publish("a")
    task = operator("work", marker)
    run = Background(task, task_context(task, state="up_for_retry"))
    eventually(marker.exists)
    task.on_kill()
    assert isinstance(run.ended_with(), AirflowException)
    assert queue.lease_info(LEASE_ID).owner == OWNER.format(1), "for the retry"


def test_a_new_run_of_the_same_name_submits_what_is_ready_in_every_state_of_the_former_run(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    first, anew = ((datetime(2026, 1, day, tzinfo=UTC), 0) for day in (1, 2))
    queue.publish("a")
    task = operator("adopt_and_ack", marker)
    task.execute(task_context(task, run=first))
    queue.publish("b")
    report = task.execute(task_context(task, run=anew))
    assert (report["lease_id"], report["acked"], report["settled_before"]) == (f"{LEASE_ID}#2", 1, False)
    queue.publish("c")
    failing = operator("adopt_and_fail", marker)
    with pytest.raises(AirflowException):
        failing.execute(task_context(failing, run=first, run_id="kept"))
    report = task.execute(task_context(task, run=anew, run_id="kept"))
    assert (report["claimed"], report["acked"]) == (1, 1)


def test_a_killed_task_keeps_its_messages_no_longer_than_a_lease_in_case_no_retry_follows(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("work", marker, queue_config=LeasedConfig(lease=60))
    run = Background(task, task_context(task))
    eventually(marker.exists)
    task.on_kill()
    assert isinstance(run.ended_with(), AirflowException)
    info = queue.lease_info(LEASE_ID)
    assert info.owner == OWNER.format(1), "for a clear, which takes it over"
    assert info.deadline.timestamp() - time.time() < 60 + 1


def test_a_driver_that_ignores_sigterm_is_killed_before_the_lease_is_released(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("work_deaf", marker)
    run = Background(task, task_context(task, try_number=3, max_tries=2))
    eventually(marker.exists)
    task.on_kill()
    assert queue.backlog().ready == 0
    assert isinstance(run.ended_with(), AirflowException)
    assert gone(marker)
    assert queue.backlog().ready == 1


def test_an_execution_timeout_ends_the_driver_and_keeps_the_lease(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("work", marker)
    with pytest.raises(AirflowTaskTimeout), execution_timeout(marker.exists):
        task.execute(task_context(task))
    assert gone(marker)
    assert queue.lease_info(LEASE_ID).owner == OWNER.format(1)


def test_a_kill_before_the_driver_started_stops_it_as_soon_as_it_does(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("work", marker, spark_env=lambda: task.on_kill() or {})
    with pytest.raises(AirflowException):
        task.execute(task_context(task))


def test_a_kill_before_the_task_executes_claims_nothing(queue: Any, marker: Path, task_context: MakeContext) -> None:
    queue.publish("a")
    task = operator("work", marker)
    task.on_kill()
    with pytest.raises(TaskKilled, match="before it claimed"):
        task.execute(task_context(task))
    assert not marker.exists()
    assert queue.admin.peek()[0].deliveries == 0


def test_an_outage_of_redis_does_not_hide_the_failure_of_a_driver(
    queue: Any, marker: Path, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish("a")
    task = operator("adopt_and_fail", marker, queue_config=LeasedConfig(retry_budget=0.2))
    monkeypatch.setattr("rmq_airflow.operators.spark_submit.keep_lease_s", lambda *_: shut_out(queue))
    try:
        with pytest.raises(AirflowException, match="Error code is: 3"):
            task.execute(task_context(task))
    finally:
        queue.client.execute_command("ACL", "SETUSER", "airflow", "on")
    assert queue.lease_info(LEASE_ID) is not None


def shut_out(queue: Any) -> float:
    """Make every later request of the operator's user fail."""
    queue.client.execute_command("ACL", "SETUSER", "airflow", "off")
    queue.client.client_kill_filter(user="airflow")
    return 60.0


def test_variables_of_spark_env_reach_the_driver_and_cannot_hide_the_handover(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("adopt_and_ack", marker, spark_env=lambda: {"RMQ_HANDOVER": "{}", "OTHER": "1"})
    assert task.execute(task_context(task))["acked"] == 1


def test_a_spark_env_that_raises_keeps_the_messages_for_the_retry(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    def broken() -> dict[str, str]:
        raise FileNotFoundError

    queue.publish("a")
    task = operator("adopt_and_ack", marker, spark_env=broken)
    with pytest.raises(FileNotFoundError):
        task.execute(task_context(task))
    assert queue.lease_info(LEASE_ID).owner == OWNER.format(1)


def test_while_the_driver_runs_the_password_is_in_no_command_line(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("tell_secrets", marker)
    run = Background(task, task_context(task))
    eventually(marker.exists)
    environment = psutil.Process(int(marker.read_text())).environ()
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    marker.with_suffix(".go").touch()
    assert run.ended_with() is None
    assert environment["RMQ_PASSWORD"] == CANARY, "it did reach the driver"
    assert any("driver.py" in line for line in lines)
    assert not any(CANARY in line for line in lines)


def test_the_handover_contains_the_lease_but_no_token(queue: Any, marker: Path, task_context: MakeContext) -> None:
    queue.publish("a")
    task = operator("tell_secrets", marker)
    run = Background(task, task_context(task))
    eventually(marker.exists)
    environment = psutil.Process(int(marker.read_text())).environ()
    marker.with_suffix(".go").touch()
    assert run.ended_with() is None
    names = {"queue": QUEUE, "lease_id": LEASE_ID, "owner": OWNER.format(1), "lease_ms": 300_000}
    assert json.loads(environment["RMQ_HANDOVER"]) == {**names, "credentials": ["username", "password"]}, (
        "names of them"
    )
    assert CANARY not in environment["RMQ_URL"]


def test_nothing_secret_is_left_on_the_operators_template_fields(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    task = operator("adopt_and_ack", marker)
    task.execute(task_context(task))
    shown = {name: getattr(task, name) for name in task.template_fields}
    assert CANARY not in repr(shown)
    assert "RMQ_" not in repr(shown)


TASK = """
import sys
from types import SimpleNamespace
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_core import LeasedConfig
application, marker = sys.argv[1:]
task = RedisQueueSparkSubmitOperator(
    task_id="spark", redis_queue="work", application=application, application_args=["work", marker],
    queue_config=LeasedConfig(lease=2),
)
names = {"dag_id": "dag", "run_id": "run", "task_id": "spark", "map_index": -1}
task.execute({"ti": SimpleNamespace(**names, try_number=1, max_tries=2, task=task, stats_tags={})})
"""


def test_killing_the_task_process_ends_its_driver_and_its_messages_become_ready_again(
    queue: Any, marker: Path, task_context: MakeContext
) -> None:
    queue.publish("a")
    worker = subprocess.Popen([sys.executable, "-c", TASK, str(DRIVER), str(marker)], cwd=Path(__file__).parents[2])
    eventually(marker.exists)
    assert queue.lease_info(LEASE_ID).owner == OWNER.format(1)
    worker.kill()
    worker.wait()
    eventually(lambda: gone(marker))
    eventually(lambda: queue.backlog().ready == 1)
    task = operator("adopt_and_ack", marker)
    assert task.execute(task_context(task, try_number=2))["acked"] == 1


def test_without_spark_the_operator_reports_how_to_get_it_and_claims_nothing(
    queue: Any, marker: Path, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_spark(monkeypatch, marker.parent)
    queue.publish("a")
    task = operator("adopt_and_ack", marker)
    with pytest.raises(ConfigurationError) as raised:
        task.execute(task_context(task))
    text = str(raised.value)
    assert "\n" not in text
    assert text.startswith("there is no `spark-submit` on PATH, in $SPARK_HOME/bin or beside Python: ")
    assert "run `pip install 'rmq[airflow-spark]'`" in text
    assert queue.lease_info(LEASE_ID) is None
    assert queue.backlog().ready == 1


def hide_spark(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Simulate a worker without Spark: no spark-submit on PATH or next to the interpreter, and no SPARK_HOME."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr("rmq_airflow.hooks.spark.sys", SimpleNamespace(executable=str(folder / "python")))


@pytest.mark.parametrize(
    "options",
    [{"durable": True}, {"yarn_track_via_rm_api": True}, {"post_submit_commands": ["true"]}],
    ids=lambda options: next(iter(options)),
)
def test_an_option_that_an_old_spark_provider_lacks_is_refused_with_an_explanation(
    marker: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_TRACKS", False)
    with pytest.raises(
        ConfigurationError, match=rf"`{next(iter(options))}` needs .*-spark 6\.1 or later, but .*SPARK_HOME"
    ):
        operator("touch", marker, **options)


def test_cluster_mode_with_an_old_spark_provider_is_refused_with_an_explanation(
    marker: Path, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_TRACKS", False)
    with pytest.raises(ConfigurationError, match=r"`deploy_mode='cluster'` needs .*-spark 6\.1 or later"):
        operator("touch", marker, deploy_mode="cluster")
    elsewhere = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(elsewhere))
    task = operator("touch", marker)
    with pytest.raises(ConfigurationError, match=r"connection 'spark_default', needs .*-spark 6\.1 or later"):
        task.execute(task_context(task))
