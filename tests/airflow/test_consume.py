"""Draining a queue in a task: every way the work of a message, a batch or the task can end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowTaskTimeout
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rmq_airflow import batch as claiming
from rmq_airflow import drain, killed
from rmq_airflow.drain import TooManyFailures
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.killed import TaskKilled
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_core import ConfigurationError, LeasedConfig, LeaseLost, LeaseOwnedByOther, Message, exponential
from tests.airflow.conftest import QUEUE, MakeContext
from tests.faults.patience import PATIENCE_S

OWNER = "airflow:dag/run/consume/-1/{}"
LEASE = "dag/run/consume/-1"


def operator(**options: Any) -> RedisQueueConsumeOperator:
    return RedisQueueConsumeOperator(task_id="consume", redis_queue=QUEUE, **options)


def consume(context: MakeContext, try_number: int = 1, **options: Any) -> Any:
    made = operator(**options)
    return made.execute(context(made, try_number=try_number))


def fail_on(*bad: str) -> Callable[[Message], None]:
    def work(message: Message) -> None:
        if message.payload in bad:
            raise ValueError(f"cannot work on {message.payload}")

    return work


def test_every_message_is_worked_on_once_in_order_until_the_queue_is_empty(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many(map(str, range(25)))
    seen: list[Any] = []
    report = consume(task_context, on_message=lambda message: seen.append(message.payload), batch_size=10)
    assert seen == [str(n) for n in range(25)]
    assert report == {
        "queue": QUEUE, "ended": "empty", "claimed": 25, "acked": 25, "failed": 0, "dead": 0, "isolated": 0,
        "settled_before": False,
    }  # fmt: skip
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_failed_message_is_requeued_with_a_delay_and_the_others_are_acked(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many(["a", "bad", "c"])
    report = consume(task_context, on_message=fail_on("bad"))
    assert (report["acked"], report["failed"], report["dead"]) == (2, 1, 0)
    stats = queue.stats()
    assert (stats.ready, stats.delayed, stats.leased) == (0, 1, 0)


def test_a_failed_message_waits_for_the_backoff_that_is_stored_with_the_queue(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.admin.configure(backoff=exponential(7200, 7200, 0))
    queue.publish("bad")
    assert consume(task_context, on_message=fail_on("bad"))["failed"] == 1
    (due,) = queue.admin.browse("delayed").due
    assert (due - queue.admin.server_time()).total_seconds() > 3600


def test_a_batch_function_may_settle_single_messages_and_the_rest_is_acked(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(batch: Any) -> None:
        batch.nack(batch[0], reason="too early", delay=60)
        batch.release(batch[1])
        batch.ack(batch[2])

    queue.publish_many("abcd")
    report = consume(task_context, on_batch=work, max_messages=4)
    assert (report["acked"], report["failed"]) == (2, 1)
    assert queue.stats().delayed == 1
    (released,) = queue.admin.peek(4)
    assert (released.payload, released.deliveries) == ("b", 0)


def test_a_failed_batch_is_requeued_except_for_what_it_acked(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(batch: Any) -> None:
        batch.ack(batch[0])
        raise RuntimeError("the disk is full")

    queue.publish_many("abc")
    report = consume(task_context, on_batch=work)
    assert (report["acked"], report["failed"]) == (1, 2)
    assert queue.stats()[:4] == (0, 2, 0, 0)


def test_the_function_receives_the_context_entries_that_it_names(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish("a")
    seen: list[str] = []
    consume(task_context, on_message=lambda message, ti: seen.append(f"{ti.run_id}: {message.payload}"))
    assert seen == ["run: a"]


def test_nothing_is_claimed_after_the_time_limit(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes: list[int] = []  # each message takes a minute on the clock of the operator
    monkeypatch.setattr(drain, "time", SimpleNamespace(monotonic=lambda: 60 * len(minutes)))
    queue.publish_many(map(str, range(10)))
    report = consume(task_context, on_message=lambda message: minutes.append(1), max_time=100, batch_size=2)
    assert report["ended"] == "max_time"
    assert report["acked"] == report["claimed"] == 2
    assert queue.stats().ready == 8


def test_too_many_failures_fail_the_task_and_unprocessed_messages_are_released(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many(["a", "bad", "bad", "d", "e"])
    with pytest.raises(TooManyFailures, match="max_failures=1"):
        consume(task_context, on_message=fail_on("bad"), max_failures=1)
    assert [(message.payload, message.deliveries) for message in queue.admin.peek(5)] == [("d", 0), ("e", 0)]
    assert queue.stats()[:4] == (2, 2, 0, 0)


@pytest.mark.parametrize("error", [AirflowFailException("wrong"), AirflowTaskTimeout("late")])
def test_an_exception_that_ends_the_task_nacks_the_current_message_and_releases_the_rest(
    error: BaseException, connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(message: Message) -> None:
        if message.payload == "b":
            raise error

    queue.publish_many("abc")
    with pytest.raises(type(error)):
        consume(task_context, on_message=work)
    assert sorted((message.payload, message.deliveries) for message in queue.admin.peek(5)) == [("b", 1), ("c", 0)]
    assert queue.stats().leases == 0


def test_the_retry_of_a_killed_try_gets_the_same_messages_first(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("abc")
    retries = queue.claim(max_messages=2, lease_id=LEASE, owner=OWNER.format(1))
    queue.ack(retries, retries.messages[:1])
    seen: list[Any] = []
    report = consume(task_context, 2, on_message=lambda message: seen.append((message.payload, message.deliveries)))
    assert seen == [("b", 2), ("c", 1)]
    assert report["acked"] == 2
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_a_try_that_died_without_a_word_is_blamed_on_the_message_in_work(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL, or a lack of memory: nothing is left of the try but its lease."""

    class Killed(BaseException):
        """In place of SIGKILL: `stop` is replaced too, so nothing settles."""

    def work(message: Message) -> None:
        if message.payload == "3":
            raise Killed

    queue.publish_many(map(str, range(6)))
    monkeypatch.setattr(drain.Drain, "stop", lambda *_: None)
    with pytest.raises(Killed):
        consume(task_context, on_message=work)
    assert queue.admin.expire_lease(LEASE, reason="killed").settled == 3
    assert [(message.payload, message.deliveries) for message in queue.admin.peek(3)] == [("4", 0), ("5", 0), ("3", 1)]


def test_a_zombie_of_a_task_does_not_take_from_its_retry(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish("a")
    retry = queue.claim(lease_id=LEASE, owner=OWNER.format(2))
    with pytest.raises(LeaseOwnedByOther, match="not an earlier try"):
        consume(task_context, 1, on_message=print)
    assert queue.ack(retry).settled == 1


def test_losing_the_lease_ends_the_task_without_acking_the_messages_of_others(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(message: Message) -> None:
        queue.adopt(LEASE, owner="somebody else")

    queue.publish_many("ab")
    with pytest.raises(LeaseLost):
        consume(task_context, on_message=work)
    assert queue.lease_info(LEASE).owner == "somebody else"
    assert queue.stats().leased == 2


def test_a_lease_shorter_than_the_work_is_kept_by_heartbeats(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish("a")
    report = consume(task_context, on_message=lambda message: time.sleep(1), queue_config=LeasedConfig(lease=0.3))
    assert report["acked"] == 1
    assert queue.stats()[:3] == (0, 0, 0)


@pytest.mark.parametrize("option", ["on_message", "on_batch"])
def test_a_kill_by_a_user_stops_the_work_and_releases_everything(
    option: str, connection: str, queue: Any, task_context: MakeContext
) -> None:
    def work(messages: Any) -> None:
        try:
            made.on_kill()
        except Exception:  # what a function may do, and what must not keep it going
            seen.append("went on")

    seen: list[str] = []
    made = operator(**{option: work})
    queue.publish_many("abc")
    with pytest.raises(TaskKilled, match=r"it was cleared; its messages were released"):
        made.execute(task_context(made, state="restarting"))
    assert sorted((message.payload, message.deliveries) for message in queue.admin.peek(5)) == [
        ("a", 0),
        ("b", 0),
        ("c", 0),
    ]
    assert queue.stats().leases == 0
    assert seen == []


def test_a_kill_during_an_outage_of_redis_stops_the_work_and_the_messages_wait_for_their_deadline(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(message: Message) -> None:
        queue.client.execute_command("ACL", "SETUSER", "airflow", "off")
        made.on_kill()

    made = operator(on_message=work)
    queue.publish("a")
    with pytest.raises(TaskKilled, match="return when their lease expires"):
        made.execute(task_context(made, state="restarting"))
    assert queue.lease_info(LEASE).owner == OWNER.format(1)


def test_on_kill_between_two_batches_releases_the_next_claim_and_ends_the_task(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claim(*args: Any, **options: Any) -> Any:
        lease = claiming.claim(*args, **options)
        if seen:
            made.on_kill()  # like Airflow's handler: it runs once, and then the task continues
        return lease

    seen: list[Any] = []
    made = operator(on_message=lambda message: seen.append(message.payload), batch_size=1)
    monkeypatch.setattr(drain, "claim", claim)
    queue.publish_many("abc")
    with pytest.raises(TaskKilled):
        made.execute(task_context(made))
    assert seen == ["a"]
    assert sorted((message.payload, message.deliveries) for message in queue.admin.peek(5)) == [("b", 0), ("c", 0)]
    assert queue.stats().leases == 0


def test_on_kill_does_not_wait_for_a_supervisor_lock_that_the_interrupted_code_holds(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = threading.Lock()  # not an RLock, as on Airflow's path to the supervisor

    def ask(*_: Any, **__: Any) -> Any:
        with lock:
            return {}

    def work(message: Message) -> None:
        with lock:
            made.on_kill()

    monkeypatch.setattr(killed, "ASK_S", 0.2)
    made = operator(on_message=work)
    context = task_context(made)
    context["ti"].get_task_states = ask
    queue.publish("a")
    with pytest.raises(TaskKilled, match="did not say why"):
        made.execute(context)
    assert queue.stats().ready == 1


SLEEPER = """
import os, signal, time
from types import SimpleNamespace
from rmq_airflow.killed import TaskKilled
from rmq_airflow.operators.consume import RedisQueueConsumeOperator

def work(message):
    os.write(1, b"working\\n")  # print may not be interrupted by a handler that prints
    time.sleep(600)

operator = RedisQueueConsumeOperator(task_id="consume", redis_queue="work", on_message=work)
signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="consume", map_index=-1, try_number=1, max_tries=1)
ti.get_task_states = lambda *_, **__: {"run": {"consume": "running"}}
try:
    operator.execute({"ti": ti})
except TaskKilled as killed:
    print(killed, flush=True)
"""


@pytest.mark.slow
def test_sigterm_during_the_work_releases_the_messages_and_ends_the_task(
    connection: str, queue: Any, tmp_path: Path
) -> None:
    queue.publish_many("ab")
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    try:
        assert "working\n" in iter(process.stdout.readline, "")
        process.send_signal(signal.SIGTERM)
        assert "its worker was told to shut down; its messages were released\n" in process.stdout
        assert process.wait(PATIENCE_S) == 0
        assert [(message.payload, message.deliveries) for message in queue.admin.peek(5)] == [("a", 0), ("b", 0)]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_the_retry_of_a_sigkilled_try_processes_its_messages(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("ab")
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    assert "working\n" in iter(process.stdout.readline, "")
    process.kill()
    process.wait()
    process.stdout.close()
    assert queue.stats()[:4] == (0, 0, 2, 1), "held until its lease ends, or its retry comes"
    seen: list[Any] = []
    consume(task_context, 2, on_message=lambda message: seen.append((message.payload, message.deliveries)))
    assert seen == [("a", 2), ("b", 2)]
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_the_span_of_the_work_links_to_the_publishers_and_contains_no_payload(
    connection: str, queue: Any, task_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("rmq_airflow.metrics.tracer", provider.get_tracer("test"))
    queue.publish("poison", headers={"traceparent": f"00-{0xABC:032x}-{0xDEF:016x}-01"})
    queue.publish("b", headers={"traceparent": "no trace"})
    consume(task_context, on_message=fail_on("poison"))
    first, second = exporter.get_finished_spans()
    assert [link.context.trace_id for link in first.links] == [0xABC]
    assert (first.name, first.status.description) == (f"process {QUEUE}", "ValueError")
    assert list(second.links) == []
    assert "poison" not in first.to_json()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "on_message"),
        ({"on_message": print, "on_batch": print}, "on_message"),
        ({"on_message": "print"}, "functions"),
        ({"on_message": print, "batch_size": 0}, "batch_size"),
        ({"on_message": print, "max_messages": True}, "max_messages"),
        ({"on_message": print, "max_failures": -1}, "max_failures"),
        ({"on_message": print, "max_time": float("nan")}, "max_time"),
        ({"on_message": print, "queue_config": {"lease": 5}}, "LeasedConfig"),
        ({"on_message": print, "redis_queue": ""}, "redis_queue"),
    ],
)
def test_invalid_arguments_are_refused_when_the_dag_is_parsed(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RedisQueueConsumeOperator(task_id="consume", **{"redis_queue": QUEUE, **options})


async def unawaited(message: Any) -> None: ...


def forgetting(message: Any) -> Any:
    return unawaited(message)


def never_begun(message: Any) -> Any:
    yield message


class Awaited:
    async def __call__(self, message: Any) -> None: ...


@pytest.mark.parametrize("work", [unawaited, Awaited()])
def test_a_coroutine_function_is_refused_because_it_would_not_be_awaited(work: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"asyncio\.run"):
        operator(on_message=work)


@pytest.mark.parametrize("work", [forgetting, never_begun])
@pytest.mark.parametrize("kind", ["on_message", "on_batch"])
def test_a_function_whose_work_has_yet_to_be_done_acks_nothing(
    queue: Any, connection: str, task_context: MakeContext, kind: str, work: Any
) -> None:
    queue.publish_many(["a", "b"])
    with pytest.raises(ConfigurationError, match="returned a"):
        consume(task_context, **{kind: work})
    assert queue.stats().ready + queue.stats().delayed == 2


@pytest.mark.parametrize(
    ("owner", "follows"),
    [
        (OWNER.format(1), True),
        (OWNER.format(2), True),
        (OWNER.format(3), False),
        ("airflow:dag/run/other/-1/1", False),
        ("dag/run/consume/-1/1", False),
        ("somebody", False),
        ("", False),
    ],
)
def test_a_try_may_take_over_from_itself_and_from_earlier_tries_of_its_task(owner: str, follows: Any) -> None:
    assert TaskIdentity("dag", "run", "consume", -1, 2).follows(owner) is follows
