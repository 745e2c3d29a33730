# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""What Dagster does when all messages of a publication are done."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError, LeasedQueue
from rmq_dagster import RedisQueueResource, redis_queue_publication_check, redis_queue_publication_sensor
from rmq_dagster.components import RedisQueuePublishComponent
from rmq_dagster.runs.identity import PUBLICATION, QUEUE
from rmq_dagster.sensors import publications

NOVEMBER = "report 2026-11"
Tick = Callable[..., dg.SensorResult]


@dg.asset
def report() -> None: ...


@pytest.fixture
def counted(queue: LeasedQueue) -> LeasedQueue:
    queue.admin.configure(groups="exclusive")
    return queue


@pytest.fixture
def tick(counted: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Tick:
    def evaluate(cursor: str | None = None, **options: Any) -> dg.SensorResult:
        sensor = redis_queue_publication_sensor(counted.name, **{"target": [report], **options})
        resources = {"redis_queue": redis_queue}
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    return evaluate


def keys(result: dg.SensorResult) -> list[str | None]:
    return [request.run_key for request in result.run_requests or ()]


def fail(queue: LeasedQueue) -> None:
    """Let all ready messages become dead letters."""
    while lease := queue.claim():
        queue.nack(lease)


def drain(queue: LeasedQueue) -> None:
    while lease := queue.claim():
        queue.ack(lease)


def test_a_run_is_requested_once_all_is_done_and_again_if_more_is_added(
    tick: Tick, counted: LeasedQueue, redis_queue: RedisQueueResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no publication" in str(tick().skip_reason)
    redis_queue.publish(counted.name, ["a", "b"], group="sales", publication=NOVEMBER)
    lease = counted.claim()
    assert lease is not None
    working = tick()
    assert (keys(working), working.cursor) == ([], "0")
    assert f"{NOVEMBER!r}: of its 2 messages, 1 wait and 1 are leased" in str(working.skip_reason)
    counted.ack(lease)
    drain(counted)
    ended = tick(working.cursor)
    (request,) = ended.run_requests or ()
    assert request.tags == {QUEUE: counted.name, PUBLICATION: NOVEMBER}
    assert request.run_key == f"{counted.name}:{NOVEMBER}:{ended.cursor}"
    assert keys(tick()) == keys(ended), "a lost cursor repeats the key, which Dagster skips"

    monkeypatch.setattr(publications, "_AGAIN_MS", 0)
    quiet = tick(ended.cursor)
    assert (keys(quiet), quiet.cursor) == ([], ended.cursor)
    redis_queue.publish(counted.name, ["late"], publication=NOVEMBER)
    assert keys(tick(quiet.cursor)) == []
    drain(counted)
    again = tick(quiet.cursor)
    assert len(keys(again)) == 1
    assert keys(again) != keys(ended)


def test_a_cursor_of_a_clock_that_was_ahead_skips_no_end(tick: Tick, counted: LeasedQueue) -> None:
    """The clock of the primary before a fail-over was half a minute ahead."""
    counted.publish_many([], publication=NOVEMBER)
    ahead_ms = int(counted.admin.server_time().timestamp() * 1000) + 30_000
    found = tick(str(ahead_ms))
    assert len(keys(found)) == 1
    assert found.cursor == str(ahead_ms)


def test_a_sensor_may_look_at_publications_of_one_kind(tick: Tick, counted: LeasedQueue) -> None:
    for name in (NOVEMBER, "report 2026-12", "rerun 7"):
        counted.publish_many([], publication=name)
    requests = tick(prefix="report ").run_requests or ()
    assert {request.tags[PUBLICATION] for request in requests} == {NOVEMBER, "report 2026-12"}


def test_what_a_step_publishes_through_an_outbox_is_counted(
    counted: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    @dg.op
    def publisher(context: dg.OpExecutionContext) -> None:
        with redis_queue.outbox(context, counted.name) as outbox:
            outbox.publish(["a", "b"], group="sales", priority=3, publication=NOVEMBER)
            outbox.publish(["late"], expires=0.001, publication=NOVEMBER)

    @dg.job
    def work() -> None:
        publisher()

    assert work.execute_in_process(instance=instance).success
    assert counted.publication(NOVEMBER).messages == 3
    lease = counted.claim(max_messages=10)
    assert lease is not None
    found = [(each.payload, each.group, each.priority) for each in counted.messages(lease)]
    assert found == [("a", "sales", "3"), ("b", "sales", "3")]
    assert counted.publication(NOVEMBER).dead == 1


@pytest.mark.parametrize("tagged", [True, False], ids=["of_the_run", "named"])
def test_a_check_fails_while_messages_are_left_or_dead_and_reports_the_counts(
    tagged: bool, counted: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    check = redis_queue_publication_check(counted.name, asset=report, publication=None if tagged else NOVEMBER)

    def checked() -> tuple[bool, Any, Any, Any]:
        result = dg.materialize(
            [report, check], instance=instance, resources={"redis_queue": redis_queue},
            tags={PUBLICATION: NOVEMBER} if tagged else {},
        )  # fmt: skip
        (evaluation,) = result.get_asset_check_evaluations()
        assert evaluation.check_name == f"{counted.name}_publication"
        found = {name: value.value for name, value in evaluation.metadata.items()}
        assert (found["rmq/publication"], found["rmq/messages"]) == (NOVEMBER, 2)
        return evaluation.passed, found["rmq/waiting"], found["rmq/acked"], evaluation.description

    counted.publish("good", publication=NOVEMBER)
    drain(counted)
    counted.publish("bad", publication=NOVEMBER)
    assert checked() == (False, 1, 1, "1 waiting")
    fail(counted)
    assert checked() == (False, 0, 1, "1 dead")
    counted.admin.redrive()
    drain(counted)
    assert checked() == (True, 0, 2, None)


def test_a_check_of_a_run_that_no_sensor_requested_says_what_to_do(
    counted: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    check = redis_queue_publication_check(counted.name, asset=report)
    with pytest.raises(ConfigurationError, match="no redis_queue_publication_sensor requested it"):
        dg.materialize([report, check], instance=instance, resources={"redis_queue": redis_queue})


def test_a_publishing_component_names_the_publication(
    counted: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    attributes = {"queue": counted.name, "asset": {"key": "orders"}, "messages": ["a"], "publication": NOVEMBER}
    context = dg.ComponentTree.for_test().load_context
    component: Any = RedisQueuePublishComponent.from_attributes_dict(attributes=attributes, context=context)
    assets: Any = component.build_defs(context).assets
    assert dg.materialize(list(assets), instance=instance, resources={"redis_queue": redis_queue}).success
    assert counted.publication(NOVEMBER).waiting == 1


def test_the_publication_of_a_day_is_the_partition_of_that_day(
    tick: Tick, counted: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    days = dg.DailyPartitionsDefinition("2026-11-01")

    @dg.asset(partitions_def=days)
    def daily() -> None: ...

    def day_of(name: str) -> str | None:
        day = name.removeprefix("uploads ")
        return day if days.has_partition_key(day) else None

    terms: dict[str, Any] = {"target": [daily], "partition": day_of}
    counted.publish("a", publication="uploads 2026-11-02")
    drain(counted)
    counted.publish_many([], publication="test")
    (request,) = tick(**terms).run_requests or ()
    assert (request.partition_key, request.tags[PUBLICATION]) == ("2026-11-02", "uploads 2026-11-02")

    check = redis_queue_publication_check(counted.name, asset=daily, publication=lambda day: f"uploads {day}")

    def passed(day: str) -> bool:
        result = dg.materialize(
            [daily, check], partition_key=day, instance=instance, resources={"redis_queue": redis_queue}
        )
        (evaluation,) = result.get_asset_check_evaluations()
        assert evaluation.metadata[PUBLICATION].value == f"uploads {day}"
        return evaluation.passed

    counted.publish("b", publication="uploads 2026-11-03")
    assert (passed("2026-11-02"), passed("2026-11-03")) == (True, False)
