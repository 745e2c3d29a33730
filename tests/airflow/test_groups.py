"""Tasks that wait for, and claim, messages of some groups only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG, Asset
from airflow.triggers.base import TriggerEvent

from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.drain import Bounds, Drain
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_airflow.triggers import watcher
from rmq_airflow.triggers.sensor import RedisQueueTrigger
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger
from rmq_core import ConfigurationError, LeasedQueue, Unsupported
from tests.airflow.conftest import QUEUE, MakeContext
from tests.faults.patience import PATIENCE_S


@pytest.fixture
def tenants(queue: LeasedQueue) -> LeasedQueue:
    """Let two tenants have messages in the queue."""
    queue.admin.configure(groups="fair")
    queue.publish_many(["a1", "a2"], group="a")
    queue.publish_many(["b1", "b2", "b3"], group="b")
    return queue


def sensor(**options: Any) -> RedisQueueSensor:
    return RedisQueueSensor(task_id="wait", redis_queue=QUEUE, poke_interval=0.05, **options)


def test_a_sensor_counts_the_messages_of_its_groups(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    operator = sensor(groups=["b"], min_messages=3)
    assert operator.execute(task_context(operator))["ready"] == 3
    deferring = sensor(groups=("a", "absent"), min_messages=3, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        deferring.execute(task_context(deferring))
    _, arguments = deferred.value.trigger.serialize()
    assert arguments["groups"] == ["a", "absent"]


def test_a_sensor_hands_over_the_messages_of_its_groups(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    operator = sensor(groups=["b"], hand_over=True)
    handed = operator.execute(task_context(operator))
    assert (handed["ready"], handed["claimed"]) == (3, 3)
    lease = tenants.adopt(handed["lease_id"])
    assert [message.payload for message in tenants.messages(lease)] == ["b1", "b2", "b3"]
    again = sensor(groups=["b"], hand_over=True)
    assert not again.poke(task_context(again, run_id="other")).is_done


async def test_a_trigger_waits_for_messages_of_its_groups(connection: str, tenants: LeasedQueue) -> None:
    events = RedisQueueTrigger(QUEUE, min_messages=3, groups=["a"]).run()
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.to_thread(tenants.publish, "b4", group="b")
    await asyncio.wait([waiting], timeout=0.5)
    assert not waiting.done()
    await asyncio.to_thread(tenants.publish, "a3", group="a")
    event = await asyncio.wait_for(waiting, PATIENCE_S)
    assert isinstance(event, TriggerEvent)
    assert event.payload["report"]["ready"] == 3


async def test_a_doorbell_rings_for_messages_of_its_groups(connection: str, tenants: LeasedQueue) -> None:
    doorbell = RedisQueueDoorbellTrigger(QUEUE, min_messages=4, groups=["b"])
    path, arguments = doorbell.serialize()
    assert (path.rpartition(".")[2], arguments["groups"]) == ("RedisQueueDoorbellTrigger", ["b"])
    ringing = asyncio.ensure_future(anext(doorbell.run()))
    await asyncio.to_thread(tenants.publish_many, ["a3", "a4"], group="a")
    await asyncio.wait([ringing], timeout=0.5)
    assert not ringing.done()
    await asyncio.to_thread(tenants.publish, "b4", group="b")
    event = await asyncio.wait_for(ringing, PATIENCE_S)
    assert event.payload["ready"] == 4


Ring = Callable[[], Awaitable[dict[str, Any] | None]]


@asynccontextmanager
async def heard(quiet_s: float = 1.5, **options: Any) -> AsyncIterator[Ring]:
    """Run a doorbell that looks each second; give a function that returns its next event, or None if none comes."""
    events = RedisQueueDoorbellTrigger(QUEUE, repeat_interval=1, **options).run()
    pending: list[asyncio.Future[TriggerEvent]] = []

    async def ring() -> dict[str, Any] | None:
        if not pending:
            pending.append(asyncio.ensure_future(anext(events)))
        done, _ = await asyncio.wait(pending, timeout=quiet_s)
        return dict(pending.pop().result().payload) if done else None

    try:
        yield ring
    finally:
        for future in pending:
            future.cancel()
            await asyncio.wait([future])
        await events.aclose()  # type: ignore[attr-defined]  # a generator


def claim(queue: LeasedQueue, *groups: str) -> list[Any]:
    lease = queue.claim(max_messages=9, groups=groups)
    return [] if lease is None else [message.payload for message in lease.messages]


async def test_of_two_watchers_each_hears_only_its_group_and_its_event_says_what_to_claim(
    connection: str, tenants: LeasedQueue
) -> None:
    async with heard(groups={"b"}) as of_b, heard(groups=["a"]) as of_a:
        found = await of_a()
        assert found is not None
        assert (found["groups"], found["ready"]) == (["a"], 2)
        assert await asyncio.to_thread(claim, tenants, *found["groups"]) == ["a1", "a2"]
        assert await of_a() is None
        assert (await of_b() or {})["groups"] == ["b"]


async def test_claims_of_one_group_do_not_make_the_watcher_of_another_ring_more_often(
    connection: str, tenants: LeasedQueue
) -> None:
    async with heard(quiet_s=4, groups=["a"]) as of_a:
        assert (await of_a() or {})["ready"] == 2
        tenants.claim(groups=["b"])
        assert (await of_a() or {})["ready"] == 2  # in vain, after one interval
        tenants.claim(groups=["b"])
        ringing = asyncio.ensure_future(of_a())
        assert not (await asyncio.wait([ringing], timeout=1.5))[0]  # the second rest is two intervals
        assert (await ringing or {})["ready"] == 2
        tenants.claim(groups=["a"])
        assert (await of_a() or {})["ready"] == 1


async def test_a_bell_for_each_group_rings_for_those_with_enough_and_not_for_one_that_is_held(
    connection: str, tenants: LeasedQueue
) -> None:
    tenants.admin.configure(groups="exclusive")
    tenants.publish("c1", group="c")
    async with heard(each_group=True, min_messages=2) as ring:
        first = [await ring(), await ring()]
        assert [(found["groups"], found["ready"]) for found in first if found] == [(["b"], 3), (["a"], 2)]
        held = [await asyncio.to_thread(tenants.claim, groups=[name]) for name in "ab"]
        await asyncio.to_thread(tenants.publish, "a3", group="a")
        assert await ring() is None  # both are in work, and c has one message
        tenants.ack(held[0])
        assert (await ring() or {})["groups"] == ["a"]
        await asyncio.to_thread(tenants.publish, "c2", group="c")
        found = {((await ring()) or {})["groups"][0] for _ in range(2)}
        assert "c" in found


async def test_a_bell_that_is_restarted_between_its_event_and_the_claim_rings_again_until_then(
    connection: str, tenants: LeasedQueue
) -> None:
    options: dict[str, Any] = {"each_group": True, "groups": ["b", "absent"]}
    async with heard(**options) as ring:
        first = await ring()
    path, arguments = RedisQueueDoorbellTrigger(QUEUE, **options).serialize()
    assert arguments == {**arguments, "each_group": True, "groups": ["absent", "b"]}
    async with heard(**options) as ring:
        again = await ring()
        assert first is not None
        assert again is not None
        assert first["groups"] == again["groups"] == ["b"]
        claim(tenants, "b")
        assert await ring() is None
    assert path.endswith("RedisQueueDoorbellTrigger")


async def test_a_steady_trickle_is_not_taken_for_messages_that_nobody_claims(
    connection: str, tenants: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[int] = []
    monkeypatch.setattr(watcher, "repeat_after_s", lambda interval_s, in_vain: rests.append(in_vain) or interval_s)
    claim(tenants, "a", "b")
    async with heard(each_group=True) as ring:
        for number in range(4):
            await asyncio.sleep(0.6)
            tenants.publish(f"{number}", group="a")
            assert ((await ring()) or {})["ready"] == 1
            assert claim(tenants, "a") == [f"{number}"]
        await ring()
    assert rests == [0, 0, 0, 0]


async def test_a_bell_for_each_group_of_a_queue_without_groups_says_what_to_configure(
    connection: str, queue: LeasedQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.publish("x")
    async with heard(each_group=True) as ring:
        assert await ring() is None
    assert "configure(groups='fair')" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", ['groups="a"', "groups=[7]", "groups=[]", "groups=['{{ x }}\\n']", "each_group='b'"])
def test_a_dag_whose_watcher_has_a_wrong_group_is_an_import_error_that_names_the_parameter(
    wrong: str, tmp_path: Path, airflow_database: None
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "watched.py").write_text(
        "from airflow.sdk import DAG, Asset, AssetWatcher\n"
        "from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger as Bell\n"
        f"bell = AssetWatcher(name='bell', trigger=Bell('orders', {wrong}))\n"
        "with DAG('watched', schedule=Asset('orders', watchers=[bell])): pass\n"
    )
    (told,) = DagBag(tmp_path, bundle_path=tmp_path, bundle_name="tests").import_errors.values()
    assert "ConfigurationError: " + ("`each_group`" if wrong.startswith("each") else "groups") in told


def test_a_task_gets_the_messages_of_its_groups(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    with DAG("dag", schedule=None):
        operator = redis_queue_task(
            lambda messages: list(messages.payloads), task_id="work", queue=QUEUE, groups=["a"], max_messages=9
        )().operator
    assert operator.execute(task_context(operator)) == ["a1", "a2"]
    assert tenants.stats().ready == 3


def test_the_names_of_groups_may_be_templates(connection: str, tenants: LeasedQueue, task_context: MakeContext) -> None:
    operator = sensor(groups=['{{ "b" }}'], min_messages=3)
    context = task_context(operator)
    operator.render_template_fields(context)
    assert operator.execute(context)["ready"] == 3


def test_a_run_of_one_event_claims_from_the_group_of_its_event(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    event = SimpleNamespace(extra={"from_trigger": True, "payload": {"queue": QUEUE, "ready": 2, "groups": ["a"]}})
    named = "{{ (triggering_asset_events.values() | first | first).extra.payload.groups | first }}"
    with DAG("dag", schedule=None):
        operator = redis_queue_task(
            lambda messages: list(messages.payloads), task_id="work", queue=QUEUE, groups=[named], max_messages=9
        )().operator
    context = task_context(operator) | {"triggering_asset_events": {Asset("a"): [event]}}
    operator.render_template_fields(context)
    assert operator.execute(context) == ["a1", "a2"]


def test_groups_are_refused_where_a_batch_is_adopted_and_where_a_queue_has_none(
    connection: str, queue: LeasedQueue, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DAG("dag", schedule=None), pytest.raises(ConfigurationError, match="`groups` apply only to claiming"):
        redis_queue_task(lambda messages: None, task_id="work", hand_over={}, groups=["a"])()
    queue.publish("x")
    operator = sensor(groups=["a"])
    with pytest.raises(ConfigurationError, match=f"rmq configure {QUEUE} groups=fair"):
        operator.execute(task_context(operator))
    queue.admin.purge("ready")


def test_groups_of_another_discipline_are_refused(
    connection: str, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch, secured_url: str
) -> None:
    location = secured_url.replace("redis://", "redis-queue://")
    monkeypatch.setenv("AIRFLOW_CONN_REDIS_QUEUE_JOBS", f"{location}?discipline=jobs")
    operator = sensor(groups=["a"], redis_queue_conn_id="redis_queue_jobs")
    with pytest.raises(Unsupported, match=r"'jobs' has no groups.*use leased"):
        operator.execute(task_context(operator))


def test_a_drain_of_some_groups_leaves_the_others_and_a_retry_gets_what_a_killed_try_held(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    operator = RedisQueueConsumeOperator(
        task_id="drain", redis_queue=QUEUE, on_message=lambda message: seen.append(message.payload), batch_size=2,
        groups=['{{ "b" }}', "absent"],
    )  # fmt: skip
    seen: list[Any] = []
    killed = Drain(tenants, TaskIdentity.of(task_context(operator)), Bounds(batch_size=2), ["b"])
    assert len(next(killed.batches())) == 2
    tenants.publish("a3", group="a")
    retry = task_context(operator, try_number=2)
    operator.render_template_fields(retry)
    assert operator.execute(retry)["claimed"] == 3
    assert seen == ["b1", "b2", "b3"]
    assert [group.name for group in tenants.admin.groups()] == ["a"]


def test_a_drain_of_some_groups_is_refused_where_the_core_refuses(
    connection: str, tenants: LeasedQueue, task_context: MakeContext
) -> None:
    with pytest.raises(ConfigurationError, match="groups must be a list of names"):
        RedisQueueConsumeOperator(task_id="drain", redis_queue=QUEUE, on_message=print, groups="b")
    tenants.admin.configure(rate="50/1m")
    operator = RedisQueueConsumeOperator(task_id="drain", redis_queue=QUEUE, on_message=print, groups=["b"])
    with pytest.raises(ConfigurationError, match="rate"):
        operator.execute(task_context(operator))
