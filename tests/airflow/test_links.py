"""The link “Queue” of a task: what a worker leaves, and what the API server finds for tasks that left nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.get_provider_info import get_provider_info
from rmq_airflow.links import RedisQueueLink
from rmq_airflow.operators.check import RedisQueueCheckOperator
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.redrive import RedisQueueRedriveOperator
from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.plugin.links import MODULES, FoundLink
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import ConfigurationError
from tests.airflow.home import DAGS
from tests.airflow.runs import load, states

NAMES = {"dag_id": "etl", "run_id": "a/b:1", "task_id": "load", "try_number": 1}
PAGE = "/plugin/rmq/rmq/#/redis_queue_default/"
BELOW = "/plugin/rmq/airflow/rmq/#/redis_queue_default/"  # in an Airflow whose path is /airflow
LEASE = "/leases/etl%2Fa%2Fb%3A1%2Fload%2F-1"
HANDED = {"queue": "given", "lease_id": "lease", "owner": "o", "claimed": 1}


def decorated() -> Any:
    @redis_queue_task(queue="w/ż")
    def load(messages: Any) -> None: ...

    with DAG("etl", schedule=None):
        return load().operator


def made(kind: Any, **options: Any) -> Any:
    return kind(task_id="load", redis_queue="w/ż", **options)


@pytest.mark.parametrize(
    ("operator", "place"),
    [
        (made(RedisQueueConsumeOperator, on_message=print), f"w%2F%C5%BC{LEASE}"),
        (decorated(), f"w%2F%C5%BC{LEASE}"),
        (made(RedisQueueSparkSubmitOperator, application="a.py"), f"w%2F%C5%BC{LEASE}"),
        (made(RedisQueueSparkSubmitOperator, application="a.py", lease_id="mine"), "w%2F%C5%BC/leases/mine"),
        (made(RedisQueueSensor, hand_over=True), f"w%2F%C5%BC{LEASE}"),
        (made(RedisQueueSensor), "w%2F%C5%BC"),
        (made(RedisQueuePublishOperator, messages=["a"]), "w%2F%C5%BC"),
        (made(RedisQueueRedriveOperator), "w%2F%C5%BC"),
        (made(RedisQueueCheckOperator), "w%2F%C5%BC"),
        (RedisQueueSettleOperator(task_id="load", hand_over=HANDED), "given/leases/lease"),
    ],
    ids=lambda value: getattr(value, "task_type", None),
)
def test_a_task_links_to_its_queue_and_to_the_lease_under_its_name(operator: Any, place: str) -> None:
    (link,) = operator.operator_extra_links
    for map_index in (None, -1):
        assert link.get_link(operator, ti_key=SimpleNamespace(**NAMES, map_index=map_index)) == PAGE + place
    mapped = link.get_link(operator, ti_key=SimpleNamespace(**NAMES, map_index=7))
    assert mapped == PAGE + place.replace("load%2F-1", "load%2F7")


def test_links_lead_to_a_console_that_is_configured_and_stay_below_airflows_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key: Any = SimpleNamespace(**NAMES, map_index=-1)
    check = made(RedisQueueCheckOperator)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host/airflow/")
    assert RedisQueueLink().get_link(check, ti_key=key) == f"/airflow{BELOW}w%2F%C5%BC"
    monkeypatch.setenv("AIRFLOW__RMQ__CONSOLE", "https://rmq.test/ops/")
    assert RedisQueueLink().get_link(check, ti_key=key) == "https://rmq.test/ops/#/redis/w%2F%C5%BC"
    monkeypatch.setenv("AIRFLOW__RMQ__CONSOLE", "javascript:alert(1)")
    with pytest.raises(ConfigurationError, match="console"):
        RedisQueueLink().get_link(check, ti_key=key)


def test_the_provider_and_the_plugin_register_it_for_every_operator() -> None:
    from airflow import plugins_manager
    from airflow.providers_manager import ProvidersManager

    assert "rmq_airflow.links.RedisQueueLink" in ProvidersManager().extra_links_class_names
    (found,) = [each for each in plugins_manager.get_operator_extra_links() if isinstance(each, FoundLink)]
    info = get_provider_info()
    modules = {*info["operators"][0]["python-modules"], *info["sensors"][0]["python-modules"]}
    decorator = info["task-decorators"][0]["class-name"].rpartition(".")[0]
    assert {kind.__module__ for kind in found.operators} == modules | {decorator}
    for name, module in MODULES.items():
        assert __import__(module, fromlist=[name]).__dict__[name].operator_extra_links


@pytest.fixture
def stored(airflow_database: None, connection: str) -> Callable[[str, str, str], list[Any]]:
    """Store the DAGs; `stored(dag_id, run_id, task_id)` returns the links of a task as the API server shows them."""
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    sync_bag_to_db(BundleDagBag(DAGS, bundle_path=DAGS, bundle_name="tests"), "tests", None)

    def shown(dag_id: str, run_id: str, task_id: str) -> list[Any]:
        with create_session() as session:
            dag = SerializedDagModel.get_dag(dag_id, session=session)
            assert dag is not None
            task = dag.get_task(task_id)
            assert task.extra_links == ["Queue"]
            place = select(TaskInstance).filter_by(dag_id=dag_id, run_id=run_id, task_id=task_id)
            return [task.get_extra_links(ti, "Queue") for ti in session.scalars(place.order_by(TaskInstance.map_index))]

    return shown


@pytest.mark.slow
def test_the_api_server_shows_links_of_mapped_tasks_also_if_they_were_killed_before_they_left_one(stored: Any) -> None:
    run = load("linked").test()
    assert set(states(run).values()) == {"success"}
    name = run.run_id.replace(":", "%3A").replace("+", "%2B")
    expected = [f"{PAGE}linked/leases/linked%2F{name}%2Fwork%2F{index}" for index in range(2)]
    assert stored("linked", run.run_id, "work") == expected
    assert links_left(run.run_id) == expected
    assert links_left(run.run_id, delete=True) == []
    assert stored("linked", run.run_id, "work") == expected


def links_left(run_id: str, *, delete: bool = False) -> list[Any]:
    """Return the links that the tasks of a run left as XComs, after deleting them if asked to."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete as deletion
    from sqlalchemy import select

    of_the_run = {"run_id": run_id, "key": RedisQueueLink().xcom_key}
    with create_session() as session:
        if delete:
            session.execute(deletion(XComModel).filter_by(**of_the_run))
        rows = session.scalars(select(XComModel).filter_by(**of_the_run).order_by(XComModel.map_index))
        return [row.value for row in rows]


@pytest.mark.slow
def test_the_api_server_shows_the_link_of_a_task_that_no_worker_ever_ran(stored: Any) -> None:
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    now = {"run_id": "no_worker", "run_after": datetime.now(UTC), "logical_date": None}
    kind = {"run_type": DagRunType.MANUAL, "triggered_by": DagRunTriggeredByType.TEST, "state": "running"}
    with create_session() as session:
        for name in ("waiting_from_the_start", "linked"):
            dag = SerializedDagModel.get_dag(name, session=session)
            assert dag is not None
            dag.create_dagrun(**now, **kind, session=session)  # type: ignore[arg-type]
    assert stored("waiting_from_the_start", "no_worker", "wait") == [f"{PAGE}work"]
    assert set(stored("linked", "no_worker", "work")) == {""}, "nobody has rendered the name of the queue"
