"""Asset partitions: a queue for each, keys on the event of the asset, and a consumer's run for each key."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias

from rmq_airflow import partitions
from rmq_airflow.operators import publish as publish_module
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.partitions import partition_keys
from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue
from tests.airflow.conftest import MakeContext
from tests.airflow.floor import BELOW_33
from tests.airflow.home import DAGS
from tests.airflow.runs import load, states
from tests.faults.patience import PATIENCE_S

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
    monkeypatch.setattr(partitions, "EMITS_KEYS", False)
    with pytest.raises(ConfigurationError, match=r"Airflow 3\.3"):
        publisher()
    with pytest.raises(ConfigurationError, match=r"Airflow 3\.3"):
        partition_keys({})
    assert publisher(asset=None).outlets == []


def events(*payloads: Any) -> dict[Any, list[Any]]:
    """Return the events that started a run, as its context has them."""
    return {ORDERS: [SimpleNamespace(extra={"from_trigger": True, "payload": payload}) for payload in payloads]}


@NEEDS_33
def test_the_groups_and_partitions_of_all_events_that_were_merged_into_a_run_are_its_keys() -> None:
    rung = [{"queue": "q", "ready": 1, "oldest_age": 0.1, "groups": groups} for groups in (["b"], ["a", ""], ["b"])]
    assert partition_keys(events(*rung)) == ["a", "b"]
    over_queues = [{"queue": f"q/{name}", "ready": 1, "partition": name} for name in ("eu/c", " ", "x" * 251)]
    assert partition_keys(events(*rung, *over_queues)) == ["a", "b", "eu/c"]
    by_hand = {ORDERS: [SimpleNamespace(extra={})]}
    assert partition_keys(by_hand) == partition_keys({}) == []
    with pytest.raises(ConfigurationError, match=r"queue 'q' name neither partition nor groups: .*`each_group=True`"):
        partition_keys(events(*rung, {"queue": "q", "ready": 1, "oldest_age": None}))


SCHEDULED = [
    NEEDS_33,
    pytest.mark.slow,
    pytest.mark.usefixtures("connection", "airflow_database"),
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern"),
]


def scheduled(test: Any) -> Any:
    """Mark a test that lets Airflow's scheduler create runs."""
    for mark in SCHEDULED:
        test = mark(test)
    return test


@scheduled
def test_airflow_starts_a_run_for_each_partition_and_it_claims_from_the_queue_of_its_key(secured_url: str) -> None:
    unpause("partitioned_consumer")
    assert states(load("partitioned_publisher").test()) == {"publish": "success"}
    runs = runs_that_the_scheduler_creates("partitioned_consumer")
    assert sorted(runs) == ["2026-01-01", "2026-01-02"]
    assert executed("partitioned_consumer", runs["2026-01-01"]) == {"work": "success"}
    assert payloads(secured_url, "orders/2026-01-01") == []
    assert len(payloads(secured_url, "orders/2026-01-02")) == 1


@scheduled
def test_a_doorbell_starts_a_run_for_each_group_and_it_claims_the_messages_of_its_group(secured_url: str) -> None:
    unpause("uploads_arrive", "work_on_a_tenant")
    with LeasedQueue(secured_url, "uploads") as queue:
        queue.admin.configure(groups="exclusive")
        queue.publish_many(["n1", "n2"], group="north")
        queue.publish("s1", group="south")
        for event in asyncio.run(first_events("uploads_arrive", 2)):
            emit("uploads-arrived", event)
            for run_id in runs_that_the_scheduler_creates("uploads_arrive").values():
                assert executed("uploads_arrive", run_id) == {"pass_on": "success"}
        runs = runs_that_the_scheduler_creates("work_on_a_tenant")
        assert sorted(runs) == ["north", "south"]
        assert executed("work_on_a_tenant", runs["north"]) == {"work": "success"}
        assert [group.name for group in queue.admin.groups()] == ["south"]


def unpause(*dag_ids: str) -> None:
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    def parse() -> None:
        sync_bag_to_db(BundleDagBag(DAGS, bundle_path=DAGS, bundle_name="tests"), "tests", None)

    parse()
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id.in_(dag_ids)).values(is_paused=False))
    parse()  # Airflow stores the watchers of DAGs that are not paused


async def first_events(dag_id: str, count: int) -> list[Any]:
    """Return the first events of the watcher on whose asset a DAG is scheduled."""
    (asset,) = load(dag_id).timetable.asset_condition.objects
    (watcher,) = asset.watchers
    events = watcher.trigger.run()
    try:
        async with asyncio.timeout(PATIENCE_S):
            return [await anext(events) for _ in range(count)]
    finally:
        await events.aclose()


def emit(asset: str, event: Any) -> None:
    """Let Airflow store an event of the trigger that watches an asset, as the triggerer does."""
    from airflow.models.asset import AssetModel
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        stored = session.scalars(select(AssetModel).filter_by(name=asset)).one()
        (watcher,) = stored.watchers
        Trigger.submit_event(watcher.trigger_id, event, session=session)


def runs_that_the_scheduler_creates(dag_id: str) -> dict[str | None, str]:
    """Return the ids of the runs that Airflow's scheduler has created and not begun, by their partition keys."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.sqlalchemy import prohibit_commit
    from sqlalchemy import select

    with create_session() as session:
        with prohibit_commit(session) as guard:
            SchedulerJobRunner(Job())._create_dagruns_for_dags(guard, session)
        found = select(DagRun.partition_key, DagRun.run_id).filter_by(dag_id=dag_id, state="queued")
        return {row.partition_key: row.run_id for row in session.execute(found)}


def executed(dag_id: str, run_id: str) -> dict[str, str]:
    """Run the task of a run that the scheduler created; return the states."""
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session
    from sqlalchemy import select

    (task,) = load(dag_id).tasks
    with create_session() as session:
        run = session.scalars(select(DagRun).filter_by(dag_id=dag_id, run_id=run_id)).one()
        run.state = "running"
        run.dag = SerializedDagModel.get_dag(run.dag_id, session=session)
        (ready,), _ = run.update_state(session=session, execute_callbacks=False)
        run.schedule_tis([ready], session=session)
        session.commit()
        _run_task(ti=ready, task=task, run_triggerer=False)
        session.expire_all()
        return states(session.get(DagRun, run.id))
