"""Tasks that publish parts of one publication, and sensors that wait until all of it is done."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred
from airflow.sdk import Asset
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_airflow.triggers.sensor import RedisQueuePublicationTrigger, RedisQueueTrigger
from rmq_core import ConfigurationError, LeasedConfig
from tests.airflow.conftest import QUEUE, MakeContext
from tests.airflow.dags.publications import MODES
from tests.airflow.runs import load, states, xcom
from tests.faults.patience import PATIENCE_S, eventually_async

NAME = "report 2026-11"
POISON = "b2"


@pytest.fixture
def counting(queue: Any) -> Any:
    """The queue `work`, with groups, so that it counts publications."""
    queue.admin.configure(groups="fair", max_deliveries=1)
    return queue


def publish(context: MakeContext, messages: Any, try_number: int = 1, **options: Any) -> Any:
    given = {"redis_queue": QUEUE, "publication": NAME, **options}
    operator = RedisQueuePublishOperator(task_id="publish", messages=messages, **given)
    return operator.execute(context(operator, try_number=try_number))


def sensor(**options: Any) -> RedisQueueSensor:
    given = {"publication": NAME, "poke_interval": 0.05, "timeout": PATIENCE_S, **options}
    return RedisQueueSensor(task_id="wait", redis_queue=QUEUE, **given)


def wait(context: MakeContext, **options: Any) -> Any:
    made = sensor(**options)
    return made.execute(context(made))


def drain(queue: Any) -> int:
    count = 0
    while lease := queue.claim(max_messages=100):
        count += lease.count
        queue.ack(lease)
    return count


def report(messages: int, acked: int, dead: int = 0, removed: int = 0, name: str = NAME) -> dict[str, Any]:
    counts = {"messages": messages, "acked": acked, "dead": dead, "removed": removed}
    return {"queue": QUEUE, "publication": name, **counts}


def consume(queue: Any, count: int, poison: str | None, last_s: float) -> None:
    """Work on `count` messages one by one, on the last one for `last_s` seconds; nack the poison one."""
    for number in range(count):
        lease = queue.claim(wait=PATIENCE_S)
        time.sleep(last_s if number == count - 1 else 0)
        queue.nack(lease) if lease.message.payload == poison else queue.ack(lease)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "poison"), [*((mode, None) for mode in MODES), ("deferrable", POISON)])
def test_what_follows_the_sensor_starts_when_all_parts_are_done_whatever_befell_them(
    mode: str,
    poison: str | None,
    connection: str,
    counting: Any,
    airflow_database: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rmq_airflow.operators.publish.CHUNK", 1)  # so the first try publishes before it fails
    dag = load(f"publications_{mode}")
    consumer = threading.Thread(target=consume, args=(counting, 5, poison, 2))
    consumer.start()
    run = dag.test()
    assert not consumer.is_alive()
    next_task, other = ("repair", "report") if poison else ("report", "repair")
    found = states(run)
    assert (found[next_task], found[other], found["wait"]) == ("success", "skipped", "success")
    dead = int(poison is not None)
    assert xcom(run, next_task) == report(5, 5 - dead, dead, name=run.run_id)


def test_it_does_not_end_between_two_chunks_of_a_task(
    connection: str, counting: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq_airflow.operators.publish.CHUNK", 2)
    worked: list[int] = []

    def messages() -> Iterator[str]:
        """Let a consumer work on all that was published, before the task reads on."""
        for text in "abcde":
            worked.append(drain(counting))
            assert not counting.publication(NAME).done
            yield text

    publish(task_context, messages)
    assert worked == [0, 0, 2, 0, 2]
    assert drain(counting) == 1
    assert counting.publication(NAME).done


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_publishing_task_that_fails_does_not_hold_it_open(
    error: type[BaseException],
    connection: str,
    counting: Any,
    task_context: MakeContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rmq_airflow.operators.publish.CHUNK", 1)

    def messages(ti: Any) -> Iterator[str]:
        yield "a"
        if ti.try_number == 1:
            raise error
        yield "b"

    with pytest.raises(error):
        publish(task_context, messages)
    drain(counting)
    assert counting.publication(NAME).done, "until the retry publishes again"
    publish(task_context, messages, 2, queue_config=LeasedConfig(dedup=True))
    with pytest.raises(AirflowSensorTimeout):
        wait(task_context, timeout=0.1)
    drain(counting)
    assert wait(task_context) == report(3, 3)


def test_a_task_without_any_messages_ends_it(connection: str, counting: Any, task_context: MakeContext) -> None:
    publish(task_context, [])
    assert wait(task_context) == report(0, 0)


def test_a_sensor_that_is_cleared_sees_what_was_redriven_or_added_since(
    connection: str, counting: Any, task_context: MakeContext
) -> None:
    publish(task_context, ["a", "b", "c"])
    counting.nack(counting.claim())
    drain(counting)
    for _ in range(2):
        assert wait(task_context) == report(3, 2, dead=1)
    counting.admin.redrive(1)
    with pytest.raises(AirflowSensorTimeout):
        wait(task_context, timeout=0.1)
    drain(counting)
    assert wait(task_context) == report(3, 3)
    publish(task_context, ["d", "e"])
    counting.admin.purge("ready")
    assert wait(task_context) == report(5, 3, removed=2)


@pytest.mark.parametrize("deferrable", [False, True])
def test_it_ends_with_leases_and_messages_that_expire_while_nobody_claims(
    deferrable: bool, connection: str, counting: Any, task_context: MakeContext
) -> None:
    publish(task_context, ["a", "b"])
    publish(task_context, ["c"], expires=0.2)
    counting.claim(max_messages=1, lease=0.2)
    counting.ack(counting.claim(max_messages=1))
    if deferrable:
        _, trigger = deferred(task_context)
        event = asyncio.run(asyncio.wait_for(fired(trigger), PATIENCE_S))
        assert event.xcoms == {"return_value": report(3, 1, dead=2)}  # type: ignore[attr-defined]
    else:
        assert wait(task_context) == report(3, 1, dead=2)


def test_a_name_that_nobody_published_is_named_in_the_log(
    connection: str, counting: Any, task_context: MakeContext, capsys: pytest.CaptureFixture[str]
) -> None:
    counting.open_publication(NAME)
    with pytest.raises(AirflowSensorTimeout):
        wait(task_context, timeout=0.1)
    assert "Nothing is known" not in capsys.readouterr().out
    with pytest.raises(AirflowSensorTimeout):
        wait(task_context, timeout=0.1, publication="reprot")
    assert "Nothing is known of publication reprot in queue work" in capsys.readouterr().out


def deferred(context: MakeContext, **options: Any) -> tuple[RedisQueueSensor, Any]:
    made = sensor(deferrable=True, **options)
    with pytest.raises(TaskDeferred) as raised:
        made.execute(context(made))
    return made, raised.value.trigger


async def fired(trigger: Any) -> TriggerEvent:
    (event,) = [event async for event in trigger.run()]
    return event  # type: ignore[no-any-return]


def test_a_trigger_ends_the_task_and_a_worker_ends_one_that_emits_an_event_with_the_counts(
    connection: str, counting: Any, task_context: MakeContext
) -> None:
    publish(task_context, ["a", "b"])
    done = Asset("all_is_done")
    _, ends = deferred(task_context)
    emitting, resumes = deferred(task_context, outlets=[done])
    drain(counting)
    event = asyncio.run(fired(ends))
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms == {"return_value": report(2, 2)}
    payload = asyncio.run(fired(resumes)).payload
    for execute in (lambda context: emitting.execute_complete(context, payload), emitting.execute):
        context = task_context(emitting)
        assert execute(context) == report(2, 2)
        assert context["outlet_events"][done].extra == report(2, 2)


def test_publications_of_many_runs_are_awaited_over_two_connections(connection: str, counting: Any) -> None:
    def connections() -> int:
        return sum(client["user"] == "airflow" for client in counting.client.client_list())

    async def waits() -> list[Any]:
        triggers = [RedisQueuePublicationTrigger(QUEUE, f"run {number}") for number in range(50)]
        waiting = [asyncio.create_task(fired(trigger)) for trigger in triggers]
        work = asyncio.create_task(fired(RedisQueueTrigger(QUEUE, min_messages=100)))
        await eventually_async(lambda: counting.client.zscore(f"rmq:{{{QUEUE}}}:waiters", "*"))
        assert connections() <= 2
        for number in range(50):
            await asyncio.to_thread(counting.publish_many, ["a", "b"], publication=f"run {number}")
        ready = (await asyncio.wait_for(work, PATIENCE_S)).payload["report"]["ready"]
        lease = await asyncio.to_thread(counting.claim, max_messages=99)
        await asyncio.to_thread(counting.ack, lease)
        first = await asyncio.wait_for(asyncio.gather(*waiting[:49]), PATIENCE_S)
        assert not waiting[49].done()
        await asyncio.to_thread(drain, counting)
        return [ready, *first, await asyncio.wait_for(waiting[49], PATIENCE_S)]

    ready, *events = asyncio.run(waits())
    assert ready == 100
    assert [event.payload["report"] for event in events] == [report(2, 2, name=f"run {number}") for number in range(50)]


def test_a_queue_without_groups_is_refused_by_tasks_sensors_and_triggers(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    refusals: list[Callable[[], Any]] = [lambda: publish(task_context, ["a"]), lambda: wait(task_context)]
    for refused in refusals:
        with pytest.raises(ConfigurationError, match=r"configure\(groups='fair'\)"):
            refused()
    assert queue.stats().ready == 0
    event = asyncio.run(asyncio.wait_for(fired(RedisQueuePublicationTrigger(QUEUE, NAME)), PATIENCE_S))
    assert "configure(groups='fair')" in event.payload["message"]


@pytest.mark.parametrize(
    "options",
    [
        {"min_messages": 2},
        {"max_age": 5},
        {"max_messages": 9},
        {"count": "dead"},
        {"hand_over": True},
        {"publication": ""},
        {"publication": "{{ ds }}", "deferrable": True, "start_from_trigger": True},
    ],
    ids=str,
)
def test_a_sensor_of_a_publication_neither_counts_nor_claims(options: dict[str, Any]) -> None:
    *_, name = options if "start_from_trigger" not in options else ["publication"]
    with pytest.raises(ConfigurationError, match=f"`{name}`"):
        sensor(**options)


def test_a_template_gives_each_run_a_publication_of_its_own(
    connection: str, counting: Any, task_context: MakeContext
) -> None:
    counting.publish("another run's", publication="another")
    options: dict[str, Any] = {"redis_queue": QUEUE, "publication": "{{ ti.run_id }}"}
    publisher = RedisQueuePublishOperator(task_id="publish", messages=["a"], priority=1, **options)
    waiter = RedisQueueSensor(task_id="wait", **options)
    for each in (publisher, waiter):
        context = task_context(each)
        each.render_template_fields(context)
        found = each.execute(context)
        if each is publisher:
            counting.ack(counting.claim())
    assert found == report(1, 1, name="run")
    assert counting.stats().ready == 1
