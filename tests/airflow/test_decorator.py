"""`@task.redis_queue`: a function of messages, called as Airflow calls it, and through whole DAG runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException, AirflowTaskTimeout
from airflow.sdk import DAG, task
from airflow.sdk.bases.xcom import BaseXCom

from rmq_airflow import batch
from rmq_airflow.decorators import redis_queue
from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.killed import TaskKilled
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import ConfigurationError, LeasedQueue, LeaseLost
from tests.airflow.conftest import CANARY, QUEUE, MakeContext
from tests.airflow.runs import load, states, xcom

LEASE = "dag/run/work/-1"
SOON = 0.05


def made(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return the operator that `@task.redis_queue` makes of a function."""
    if "hand_over" not in options:
        options["queue"] = QUEUE
    with DAG("dag", schedule=None):
        return redis_queue_task(function, task_id="work", **options)(*args).operator


def run(context: MakeContext, function: Callable[..., Any], *args: Any, try_number: int = 1, **options: Any) -> Any:
    operator = made(function, *args, **options)
    return operator.execute(context(operator, try_number=try_number))


def payloads(messages: Any) -> list[Any]:
    return list(messages.payloads)


def fail(messages: Any) -> None:
    raise ValueError("no")


def test_airflow_knows_the_decorator_by_its_name() -> None:
    @task.redis_queue(queue=QUEUE, max_messages=7)
    def work(messages: Any) -> None: ...

    with DAG("dag", schedule=None):
        operator: Any = work().operator
    assert (operator.redis_queue, operator.max_messages, operator.queue) == (QUEUE, 7, "default")
    assert operator.custom_operator_name == "@task.redis_queue"


def test_a_function_that_returns_has_its_messages_acked(connection: str, queue: Any, task_context: MakeContext) -> None:
    queue.publish_many("abc")
    assert run(task_context, payloads, max_messages=2) == ["a", "b"]
    assert queue.settled(LEASE).acked == 2
    assert queue.stats()[:4] == (1, 0, 0, 0)


def test_other_arguments_and_context_entries_are_passed_as_in_any_task(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def first(day: str, messages: Any, ti: Any = None) -> str:
        return f"{day} {len(messages)} {ti.run_id}"

    def last(messages: Any, day: str, *, ti: Any = None) -> str:
        return first(day, messages, ti)

    def named(*, messages: Any, day: str = "Monday", **context: Any) -> str:
        return first(day, messages, context["ti"])

    assert run(task_context, first, "Tuesday") == "Tuesday 0 run"
    assert run(task_context, last, "Sunday") == "Sunday 0 run"
    assert run(task_context, named) == "Monday 0 run"


def test_a_failure_keeps_the_lease_for_the_retry_which_gets_the_same_messages(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("abc")
    with pytest.raises(ValueError, match="no"):
        run(task_context, fail, max_messages=2)
    assert queue.stats()[:4] == (1, 0, 2, 1)
    assert queue.lease_info(LEASE).deadline.timestamp() > time.time() + 300, "the retry delay and a margin"
    seen = run(task_context, lambda messages: [(m.payload, m.deliveries) for m in messages], try_number=2)
    assert seen == [("a", 2), ("b", 2)]
    assert queue.settled(LEASE).owner == "airflow:dag/run/work/-1/2"


@pytest.mark.parametrize(("error", "try_number"), [(ValueError("no"), 3), (AirflowFailException("never"), 1)])
def test_the_last_failure_nacks_the_messages(
    error: Exception, try_number: int, connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(messages: Any) -> None:
        raise error

    queue.publish_many("ab")
    with pytest.raises(type(error)):
        run(task_context, work, try_number=try_number)
    assert sorted((message.payload, message.deliveries) for message in queue.admin.peek(5)) == [("a", 1), ("b", 1)]
    assert queue.admin.peek(1)[0].history[0].reason == f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("result", "options", "reason"),
    [
        (object(), {}, "serialize"),
        ({"a": object()}, {"multiple_outputs": True}, "serialize"),
        (["a"], {"multiple_outputs": True}, "dictionary"),
        ({1: "a"}, {"multiple_outputs": True}, "strings"),
    ],
)
def test_a_result_that_airflow_would_refuse_fails_the_try_before_anything_is_acked(
    result: Any, options: dict[str, Any], reason: str, connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish("a")
    with pytest.raises(TypeError, match=reason):
        run(task_context, lambda messages: result, **options)
    assert queue.settled(LEASE) is None
    assert run(task_context, payloads, try_number=2) == ["a"]


def test_a_custom_xcom_backend_is_not_called_to_check_the_result(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Backend(BaseXCom):
        @staticmethod
        def serialize_value(value: Any, **place: Any) -> str:
            raise AssertionError

    monkeypatch.setattr(redis_queue, "XCom", Backend)
    queue.publish("a")
    run(task_context, lambda messages: object())
    assert queue.settled(LEASE).acked == 1


def test_a_skip_releases_the_messages_without_counting_a_delivery(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(messages: Any) -> None:
        raise AirflowSkipException

    queue.publish("a")
    with pytest.raises(AirflowSkipException):
        run(task_context, work, try_number=3)
    assert queue.admin.peek(1)[0].deliveries == 0


def test_verdicts_on_single_messages_hold_however_the_function_ends(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(messages: Any) -> None:
        messages.ack(messages[0])
        messages.nack(messages[1], reason="not this one", delay=60)
        raise ValueError("no")

    queue.publish_many("abc")
    with pytest.raises(ValueError, match="no"):
        run(task_context, work)
    assert run(task_context, payloads, try_number=2) == ["c"]
    assert queue.stats()[:4] == (0, 1, 0, 0)


def test_with_max_batches_the_function_is_called_until_the_limit_or_an_empty_queue(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("abcde")
    assert run(task_context, payloads, max_messages=2, max_batches=2) == [["a", "b"], ["c", "d"]]
    assert run(task_context, payloads, max_messages=2, max_batches=None) == [["e"]]
    assert run(task_context, payloads, max_messages=2, max_batches=None) == [[]], "an empty queue calls it once"
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_the_retry_of_several_batches_starts_with_the_one_that_failed(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def fail_on_second(messages: Any) -> None:
        if messages.payloads == ["b"]:
            raise ValueError("no")

    queue.publish_many("abc")
    with pytest.raises(ValueError, match="no"):
        run(task_context, fail_on_second, max_messages=1, max_batches=None)
    assert run(task_context, payloads, max_messages=1, max_batches=None, try_number=2) == [["b"], ["c"]]
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_the_lease_is_extended_while_the_function_runs_and_a_lost_one_fails_the_task(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def slow(messages: Any) -> int:
        time.sleep(0.8)
        messages.check()
        return len(messages)

    def robbed(messages: Any) -> None:
        queue.adopt(messages.lease.id, owner="somebody else")

    queue.publish("a")
    assert run(task_context, slow, lease=0.3) == 1
    queue.publish("b")
    with pytest.raises(LeaseLost):
        run(task_context, robbed, on_settled="next")
    assert queue.stats().leased == 1


@pytest.mark.parametrize(
    ("state", "deliveries"),
    [("restarting", 0), ("failed", 0), ("success", 0), ("running", 0), ("gone", 0), ("up_for_retry", 1), (None, 1)],
)
def test_a_kill_counts_as_a_failure_depending_on_the_state_of_the_task(
    state: str | None, deliveries: int, connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(messages: Any) -> None:
        operator.on_kill()

    queue.publish_many("ab")
    operator = made(work)
    with pytest.raises(TaskKilled):
        operator.execute(task_context(operator, state=state))
    assert sorted((one.payload, one.deliveries) for one in queue.admin.peek(5)) == [
        ("a", deliveries),
        ("b", deliveries),
    ]
    assert queue.stats().leases == 0


def test_on_kill_during_the_claim_releases_the_lease_and_calls_nothing(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claim(*args: Any, **options: Any) -> Any:
        lease = batch.claim(*args, **options)
        operator.on_kill()
        return lease

    def work(messages: Any) -> None:
        called.append(messages)

    called: list[Any] = []
    operator = made(work)
    monkeypatch.setattr(redis_queue, "claim", claim)
    queue.publish("a")
    with pytest.raises(TaskKilled):
        operator.execute(task_context(operator))
    assert called == []
    assert [(message.payload, message.deliveries) for message in queue.admin.peek(2)] == [("a", 0)]


def test_a_timeout_keeps_the_lease_for_the_retry_although_airflow_kills_the_task_after_it(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(messages: Any) -> None:
        raise AirflowTaskTimeout

    queue.publish("a")
    operator = made(work)
    with pytest.raises(AirflowTaskTimeout):
        operator.execute(task_context(operator))
    operator.on_kill()
    assert queue.lease_info(LEASE).owner == "airflow:dag/run/work/-1/1"
    assert run(task_context, payloads, try_number=2) == ["a"]


def test_neither_the_log_nor_the_operator_shows_a_token_a_payload_or_a_password(
    connection: str, queue: Any, task_context: MakeContext, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = [CANARY, "payload-7d21"]

    def work(messages: Any) -> None:
        secrets.append(messages.lease.token)
        messages.nack(messages[0], reason="no use", delay=60)

    queue.publish_many(["payload-7d21", "payload-7d21"])
    operator = made(work)
    operator.execute(task_context(operator))
    log = capsys.readouterr().out
    assert f"2 messages of {QUEUE} under lease {LEASE}" in log
    assert "1 acked, 1 failed (0 dead), 0 released" in log
    assert not [secret for secret in secrets if secret in log + str(vars(operator))]


def handed_over(queue: Any, context: MakeContext) -> Any:
    queue.publish_many("ab")
    sensor = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, hand_over=True, poke_interval=SOON)
    return sensor.execute(context(sensor))


def test_a_handed_over_batch_is_adopted_and_acked_without_a_second_claim(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    handed = handed_over(queue, task_context)
    queue.publish("c")
    assert run(task_context, payloads, hand_over=handed) == ["a", "b"]
    assert queue.settled(handed["lease_id"]).owner == "airflow:dag/run/work/-1/1"
    assert run(task_context, payloads, hand_over=handed) == []
    assert queue.backlog().ready == 1


def test_a_sensor_that_returned_nothing_fails_the_task_without_a_claim(
    connection: str, secured_url: str, task_context: MakeContext
) -> None:
    with DAG("dag", schedule=None):
        wait = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, hand_over=True)
        operator: Any = redis_queue_task(payloads, task_id="work", hand_over=wait.output)().operator
    operator.hand_over = None  # the rendered output of a sensor that was skipped or marked success
    with LeasedQueue(secured_url, "None") as other:
        other.publish("of somebody else")
        with pytest.raises(ConfigurationError, match="marked success"):
            operator.execute(task_context(operator))
        assert other.stats().ready == 1


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"queue": None}, "hand_over"),
        ({"queue": None, "hand_over": {}, "on_settled": "next"}, "on_settled"),
        ({"hand_over": {}, "queue": QUEUE}, "hand_over"),
        ({"max_messages": 0}, "max_messages"),
        ({"max_batches": 0}, "max_batches"),
        ({"max_batches": 2, "multiple_outputs": True}, "max_batches"),
        ({"max_batches": None, "queue": None, "hand_over": {}}, "max_batches"),
        ({"on_settled": "again"}, "on_settled"),
        ({"queue_config": 5}, "LeasedConfig"),
    ],
)
def test_invalid_arguments_are_refused_when_the_dag_is_parsed(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name), DAG("dag", schedule=None):
        redis_queue_task(payloads, task_id="work", **{"queue": QUEUE, **options})()


def test_a_function_that_takes_no_messages_or_is_never_awaited_is_refused() -> None:
    async def later(messages: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="parameter `messages`"):
        redis_queue_task(lambda items: None, queue=QUEUE)
    with pytest.raises(ConfigurationError, match=r"asyncio\.run"):
        redis_queue_task(later, queue=QUEUE)


@pytest.mark.slow
@pytest.mark.usefixtures("connection", "airflow_database")
def test_a_dag_run_with_retries_mapped_tasks_and_hand_overs_leaves_nothing(queue: Any) -> None:
    queue.publish_many([f"m{number}" for number in range(6)])
    finished = load("taskflow").test()
    assert states(finished) == {"mapped": "success", "total": "success", "wait": "success", "adopts": "success",
                                "gives_back": "success", "publishes": "success"}  # fmt: skip
    # dag.test() runs mapped tasks in no particular order, so that any of them may have claimed any two messages.
    days, worked = zip(*(part.split(": ") for part in xcom(finished, "total")), strict=True)
    assert days == ("day0", "day0", "day1", "day1", "day2", "day2")
    assert sorted(worked) == [f"m{number}" for number in range(6)]
    tries = {ti.map_index: ti.try_number for ti in finished.get_task_instances() if ti.task_id == "mapped"}
    assert tries == {0: 1, 1: 2, 2: 1}
    assert xcom(finished, "adopts") == ["x", "y"]
    assert xcom(finished, "gives_back")["left_alone"] is not None
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
