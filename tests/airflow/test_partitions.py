"""Asset partitions: a queue for each, keys on the event of the asset, and a consumer's run for each key."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias

from rmq_airflow import partitions
from rmq_airflow.operators import publish as publish_module
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue
from tests.airflow.conftest import MakeContext
from tests.airflow.floor import BELOW_33
from tests.airflow.home import DAGS
from tests.airflow.runs import load, states

ORDERS = Asset("orders")
NEEDS_33 = pytest.mark.skipif(BELOW_33, reason="a task cannot emit partition keys")


def publisher(**options: Any) -> RedisQueuePublishOperator:
    given = {"messages": ["a1", "b1", "a2"], "partition_by": lambda payload: payload[0], "asset": ORDERS}
    return RedisQueuePublishOperator(task_id="publish", redis_queue="orders", **(given | options))


def publish(context: MakeContext, try_number: int = 1, **options: Any) -> tuple[Any, set[str]]:
    """Return the report, and the partition keys of the event."""
    operator = publisher(**options)
    made = context(operator, try_number=try_number)
    report = operator.execute(made)
    return report, set() if operator.asset is None else set(made["outlet_events"][ORDERS].partition_keys)


def payloads(url: str, name: str) -> list[Any]:
    with LeasedQueue(url, name) as queue:
        return [message.payload for message in queue.admin.peek(9)]


@NEEDS_33
def test_each_payload_goes_to_the_queue_of_its_partition_and_the_event_has_the_keys(
    connection: str, secured_url: str, task_context: MakeContext
) -> None:
    report, keys = publish(task_context)
    assert report == {"queue": "orders", "accepted": 3, "duplicates": 0, "dropped": 0}
    assert keys == {"a", "b"}
    assert (payloads(secured_url, "orders/a"), payloads(secured_url, "orders/b")) == (["a1", "a2"], ["b1"])
    assert payloads(secured_url, "orders") == []


@NEEDS_33
def test_a_partition_without_new_messages_gets_no_key_except_in_a_retry(
    connection: str, task_context: MakeContext
) -> None:
    config = LeasedConfig(dedup=True)
    assert publish(task_context, queue_config=config)[1] == {"a", "b"}
    assert publish(task_context, queue_config=config, messages=["a1", "b2"])[1] == {"b"}
    assert publish(task_context, try_number=2, queue_config=config, messages=["a1", "b2"])[1] == {"a", "b"}


def test_without_an_asset_it_publishes_and_emits_nothing(
    connection: str, secured_url: str, task_context: MakeContext
) -> None:
    report, keys = publish(task_context, asset=None)
    assert (report["accepted"], keys) == (3, set())
    assert payloads(secured_url, "orders/b") == ["b1"]


@pytest.mark.parametrize("key", ["", " ", None, 7, "x" * 251, "{a}", "a\n"])
def test_a_key_that_airflow_or_a_queue_would_refuse_is_refused_before_anything_is_published(
    key: Any, connection: str, secured_url: str, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_module, "CHUNK", 1)
    with pytest.raises(ConfigurationError, match=r"partition_by|payload 2 belongs in no queue"):
        publish(task_context, asset=None, partition_by=lambda payload: key if payload == "a2" else payload[0])
    assert payloads(secured_url, "orders/a") == payloads(secured_url, "orders/b") == []


@pytest.mark.parametrize("asset", ["queue", AssetAlias("orders")])
def test_an_alias_which_carries_no_keys_is_refused_when_the_dag_is_parsed(asset: Any) -> None:
    with pytest.raises(ConfigurationError, match="AssetAlias"):
        publisher(asset=asset)
    with pytest.raises(ConfigurationError, match="function"):
        publisher(partition_by="day")


def test_an_airflow_whose_tasks_emit_no_keys_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "OutletEventAccessor", object)
    with pytest.raises(ConfigurationError, match=r"Airflow 3\.3"):
        publisher()
    assert publisher(asset=None).outlets == []


@NEEDS_33
@pytest.mark.slow
@pytest.mark.usefixtures("connection", "airflow_database")
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern")
def test_airflow_starts_a_run_for_each_partition_and_it_claims_from_the_queue_of_its_key(secured_url: str) -> None:
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    sync_bag_to_db(BundleDagBag(DAGS, bundle_path=DAGS, bundle_name="tests"), "tests", None)
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id.startswith("partitioned")).values(is_paused=False))
    assert states(load("partitioned_publisher").test()) == {"publish": "success"}
    assert runs_that_the_scheduler_creates() == ["2026-01-01", "2026-01-02"]
    assert run_of_partition("2026-01-01") == "success"
    assert payloads(secured_url, "orders/2026-01-01") == []
    assert len(payloads(secured_url, "orders/2026-01-02")) == 1


def runs_that_the_scheduler_creates() -> list[str | None]:
    """Return the partition keys of the runs that Airflow's scheduler creates for the consumer."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        SchedulerJobRunner(Job())._create_dagruns_for_partitioned_asset_dags(session)
        session.flush()
        keys = select(DagRun.partition_key).filter_by(dag_id="partitioned_consumer").order_by(DagRun.partition_key)
        return list(session.scalars(keys))


def run_of_partition(key: str) -> str:
    """Run the task of a run that the scheduler created; return its state."""
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session
    from sqlalchemy import select

    task = load("partitioned_consumer").get_task("work")
    with create_session() as session:
        run = session.scalars(select(DagRun).filter_by(dag_id="partitioned_consumer", partition_key=key)).one()
        run.state = "running"
        run.dag = SerializedDagModel.get_dag(run.dag_id, session=session)
        (ready,), _ = run.update_state(session=session, execute_callbacks=False)
        run.schedule_tis([ready], session=session)
        session.commit()
        _run_task(ti=ready, task=task, run_triggerer=False)
        session.expire_all()
        return states(session.get(DagRun, run.id))["work"]
