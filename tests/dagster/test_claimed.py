# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
import dataclasses
import signal
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import dagster as dg
import pydantic
import pytest
from dagster._core.definitions.job_base import InMemoryJob  # no public function executes an existing run
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.execution.api import execute_run

from rmq_core import ConfigurationError, Isolation, LeasedConfig, LeasedQueue, PayloadError, Typed
from rmq_dagster import ClaimedBatch, RedisQueueResource
from rmq_dagster.runs.claiming import Terms
from rmq_dagster.runs.identity import CLAIMED, ISOLATED, QUEUE
from tests.dagster.pipeline import CONFIG
from tests.faults.patience import eventually
from tests.tracing import Spans, id_of

ODD = "{50%} Süd\x1b"
Work = Callable[[ClaimedBatch], None]
Run = Callable[..., dg.ExecuteInProcessResult]


def asset_of(queue: str, work: Work, retries: int = 0, **terms: Any) -> dg.AssetsDefinition:
    policy = dg.RetryPolicy(max_retries=retries) if retries else None
    terms.setdefault("config", CONFIG)

    @dg.asset(name="worked", retry_policy=policy, partitions_def=dg.StaticPartitionsDefinition(["north", ODD]))
    def worked(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        with redis_queue.claimed(context, queue, **terms) as batch:
            work(batch)
            return dg.MaterializeResult(metadata=batch.metadata)

    return worked


@pytest.fixture
def run(queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Run:
    """Materialize an asset that claims and then does the given work."""

    def materialize(
        work: Work, retries: int = 0, tags: dict[str, str] | None = None, partition: str = "north", **terms: Any
    ) -> Any:
        return dg.materialize(
            [asset_of(queue.name, work, retries, **terms)],
            instance=instance,
            resources={"redis_queue": redis_queue},
            partition_key=partition,
            raise_on_error=False,
            tags=tags,
        )

    return materialize


@pytest.fixture
def seen() -> list[list[Any]]:
    return []


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def fails(batch: ClaimedBatch) -> None:
    raise ValueError("no good")


def test_a_traced_resource_links_the_step_that_claims_to_the_step_that_published(
    redis_url: str, queue: LeasedQueue, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = Spans(monkeypatch)

    @dg.asset
    def published(redis_queue: RedisQueueResource) -> None:
        redis_queue.publish(queue.name, ["secret"])

    for asset, partition in ((published, None), (asset_of(queue.name, lambda _: None), "north")):
        resources = {"redis_queue": RedisQueueResource(url=redis_url, traced=True)}
        assert dg.materialize([asset], instance=instance, resources=resources, partition_key=partition).success
    publish, claim, ack = spans.ended
    assert [span.name.split()[0] for span in (publish, claim, ack)] == ["publish_many", "claim", "ack"]
    assert spans.linked(claim) == [id_of(publish)]
    assert spans.linked(ack) == [id_of(claim)]
    assert "secret" not in publish.to_json()


def test_metadata_and_log_link_to_the_lease_in_the_console(
    run: Run, queue: LeasedQueue, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQ_CONSOLE", "https://rmq.test")
    queue.publish("a")
    result = run(lambda _: None)
    values = metadata(result)
    page = f"https://rmq.test/#/redis/{queue.name}/leases/{quote(values['rmq/lease_id'], safe='')}"
    assert values["rmq/lease"] == page
    assert any(page in entry.user_message for entry in instance.all_logs(result.run_id))


def test_a_block_that_succeeds_acks_and_records_what_it_claimed(
    run: Run, queue: LeasedQueue, instance: dg.DagsterInstance, seen: list[list[Any]]
) -> None:
    queue.publish_many(["a", "b", "c"])
    result = run(lambda batch: seen.append(batch.payloads), max_messages=2)
    assert seen == [["a", "b"]]
    told = metadata(result)
    assert told.pop("rmq/seconds") >= 0
    assert told == {"rmq/queue": queue.name, "rmq/claimed": 2, "rmq/lease_id": f"{result.run_id}/worked/north"}
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)
    record = instance.get_run_by_id(result.run_id)
    assert record is not None
    assert record.tags[CLAIMED] == "2"


def test_a_partition_may_be_a_group_of_messages(run: Run, queue: LeasedQueue, seen: list[list[Any]]) -> None:
    queue.admin.configure(groups="exclusive")
    for group in ("north", "south"):
        queue.publish_many([f"{group} 1", f"{group} 2"], group=group)
    assert run(lambda batch: seen.append(batch.payloads), groups=["north"]).success
    assert seen == [["north 1", "north 2"]]
    assert queue.stats().ready == 2
    with pytest.raises(ConfigurationError, match="groups must be a list of names"):
        Terms(groups="north")


class Order(pydantic.BaseModel):
    id: int


def test_a_payload_that_does_not_fit_its_type_is_a_dead_letter_and_the_others_are_worked_on(
    run: Run, queue: LeasedQueue, redis_queue: RedisQueueResource, seen: list[list[Any]]
) -> None:
    typed = LeasedConfig(codec=Typed(Order))
    redis_queue.publish(queue.name, [Order(id=1)], config=typed)
    with pytest.raises(PayloadError, match=r"payload\['id'\]"):
        redis_queue.publish(queue.name, [{"id": "one"}], config=typed)
    queue.publish_many([{"id": "two"}, {"id": 3}])  # by a program that does not know the type
    assert run(lambda batch: seen.append(batch.payloads), config=typed).success
    assert seen == [[Order(id=1), Order(id=3)]]
    (letter,) = queue.admin.dead_letters(9)
    assert letter.history[-1].reason.startswith("InvalidPayload: payload['id']: Input should be a valid integer")
    queue.publish({"id": "four"})
    told = metadata(run(lambda batch: seen.append(batch.payloads), config=typed))
    assert (seen[-1], told["rmq/claimed"], queue.stats().dead) == ([], 1, 2)
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_a_claim_limited_by_isolation_is_reported_in_metadata_tag_and_log(
    run: Run, queue: LeasedQueue, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish_many(["a", "b", "c"])
    isolation, claim = Isolation(failures=3, most=4), LeasedQueue.claim
    monkeypatch.setattr(LeasedQueue, "claim", lambda *args, **kw: isolated(claim(*args, **kw), isolation))
    result = run(lambda batch: None, max_messages=30)
    told = metadata(result)
    assert (told["rmq/claimed"], told["rmq/asked"], told["rmq/isolated"]) == (3, 30, str(isolation))
    record = instance.get_run_by_id(result.run_id)
    assert record is not None
    assert (record.tags[CLAIMED], record.tags[ISOLATED]) == ("3", "true")
    log = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert f"got 3 of 30: {isolation}" in log


def isolated(lease: Any, isolation: Isolation) -> Any:
    return dataclasses.replace(lease, isolation=isolation)


def test_a_claim_of_another_queue_does_not_count_as_the_requested_claim_of_a_run(
    run: Run, queue: LeasedQueue, instance: dg.DagsterInstance, seen: list[list[Any]]
) -> None:
    queue.publish("a")
    elsewhere = run(lambda batch: seen.append(batch.payloads), tags={QUEUE: "another queue"})
    here = run(lambda batch: seen.append(batch.payloads), tags={QUEUE: queue.name})
    assert seen == [["a"], []]
    tags = [record.tags.get(CLAIMED) for r in (elsewhere, here) if (record := instance.get_run_by_id(r.run_id))]
    assert tags == [None, "0"]


def test_the_last_try_nacks_with_the_reason(run: Run, queue: LeasedQueue) -> None:
    queue.publish("a")
    assert not run(fails).success
    (message,) = queue.admin.peek()
    assert (message.deliveries, message.history[-1].reason) == (1, "ValueError: no good")


def test_a_try_that_dagster_repeats_keeps_its_messages_for_the_next(
    run: Run, queue: LeasedQueue, seen: list[list[Any]]
) -> None:
    queue.publish_many(["a", "b"])

    def fails_once(batch: ClaimedBatch) -> None:
        seen.append([(message.payload, message.deliveries) for message in batch])
        queue.publish("a later one")
        if len(seen) == 1:
            raise ValueError

    assert run(fails_once, retries=1).success
    assert seen == [[("a", 1), ("b", 1)], [("a", 2), ("b", 2)]]
    assert [message.payload for message in queue.admin.peek(9)] == ["a later one"] * 2


def test_a_failure_that_allows_no_retries_nacks_although_there_is_a_policy(run: Run, queue: LeasedQueue) -> None:
    queue.publish("a")

    def forbids(batch: ClaimedBatch) -> None:
        raise dg.Failure("hopeless", allow_retries=False)

    assert not run(forbids, retries=3).success
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)


@pytest.mark.parametrize("error", [ValueError("no good"), dg.RetryRequested(max_retries=3)])
def test_an_executor_with_retries_disabled_keeps_no_lease(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, error: Exception
) -> None:
    queue.publish("a")

    @dg.op(retry_policy=dg.RetryPolicy(max_retries=3))
    def fails_once(context: dg.OpExecutionContext) -> None:
        with redis_queue.claimed(context, queue.name, config=CONFIG):
            raise error

    @dg.job(executor_def=dg.in_process_executor.configured({"retries": {"disabled": {}}}))
    def work() -> None:
        fails_once()

    assert not execute_run(InMemoryJob(work), instance.create_run_for_job(work), instance).success
    (message,) = queue.admin.peek()
    assert (message.deliveries, message.history[-1].kind) == (1, "nack")


def test_an_interrupted_run_releases_its_messages(run: Run, queue: LeasedQueue) -> None:
    queue.publish("a")

    def interrupted(batch: ClaimedBatch) -> None:
        raise DagsterExecutionInterruptedError

    assert not run(interrupted).success
    (message,) = queue.admin.peek()
    assert (message.deliveries, message.history) == (0, ())


def test_a_step_whose_process_is_interrupted_claims_nothing_more_although_its_policy_retries(
    run: Run, queue: LeasedQueue, seen: list[list[Any]]
) -> None:
    queue.publish("a")

    def told_to_stop(batch: ClaimedBatch) -> None:
        seen.append(batch.payloads)
        signal.raise_signal(signal.SIGTERM)

    assert not run(told_to_stop, retries=3).success
    assert seen == [["a"]]
    (message,) = queue.admin.peek()
    assert (message.deliveries, message.history) == (0, ())


def test_a_step_whose_run_is_deleted_releases_and_claims_nothing_more(
    run: Run, queue: LeasedQueue, instance: dg.DagsterInstance, seen: list[list[Any]]
) -> None:
    queue.publish("a")

    def deleted(batch: ClaimedBatch) -> None:
        seen.append(batch.payloads)
        instance.delete_run(instance.get_runs()[0].run_id)
        raise ValueError

    run(deleted, retries=3)
    assert seen == [["a"]]
    (message,) = queue.admin.peek()
    assert (message.deliveries, message.history) == (0, ())


def test_a_failure_while_the_run_is_canceled_releases_the_messages(
    run: Run, queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    queue.publish("a")

    def fails_meanwhile(batch: ClaimedBatch) -> None:
        instance.report_run_canceling(instance.get_runs()[0])
        raise ValueError("its connection was closed")

    assert not run(fails_meanwhile).success
    (message,) = queue.admin.peek()
    assert (message.deliveries, message.history) == (0, ())


@pytest.mark.parametrize("retries", [0, 3])
def test_a_step_that_exits_nacks_and_is_not_retried(run: Run, queue: LeasedQueue, retries: int) -> None:
    queue.publish("a")

    def exits(batch: ClaimedBatch) -> None:
        sys.exit(3)

    assert not run(exits, retries).success
    (message,) = queue.admin.peek()
    assert (message.deliveries, message.history[-1].reason) == (1, "SystemExit: 3")


def test_messages_settled_one_by_one_stay_so_and_the_rest_follows_the_block(run: Run, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b", "c", "d"])

    def some(batch: ClaimedBatch) -> None:
        first, second, third, _ = batch
        batch.ack(first)
        batch.nack(second, reason="bad one")
        batch.release(third)
        raise ValueError("the last one")

    assert not run(some).success
    reasons = {m.payload: [failure.reason for failure in m.history] for m in queue.admin.peek(9)}
    assert reasons == {"b": ["bad one"], "c": [], "d": ["ValueError: the last one"]}


def test_a_lease_that_is_taken_over_fails_the_step_and_leaves_the_new_owner_alone(run: Run, queue: LeasedQueue) -> None:
    queue.publish("a")

    def robbed(batch: ClaimedBatch) -> None:
        queue.adopt(batch.lease.id, owner="somebody else")

    result = run(robbed)
    assert not result.success
    assert "is lost" in str(result.failure_data_for_node("worked").error)  # type: ignore[union-attr]
    (lease,) = queue.admin.leases()
    assert lease.owner == "somebody else"


@dg.op
def nothing() -> None: ...


@dg.job
def another() -> None:
    nothing()


def of_another_group(instance: dg.DagsterInstance, run_id: str) -> str:
    return instance.create_run_for_job(another).run_id


def later_in_the_group(instance: dg.DagsterInstance, run_id: str) -> str:
    return instance.create_run_for_job(another, root_run_id=run_id, parent_run_id=run_id).run_id


@pytest.mark.parametrize(
    "new_owner",
    [lambda *_: "airflow:load/manual__1/work/-1/1", lambda *_: "somebody else", of_another_group, later_in_the_group],
    ids=["airflow", "by hand", "run of another group", "later run of the group"],
)
def test_a_retry_does_not_take_a_lease_from_a_foreign_owner(
    run: Run, queue: LeasedQueue, instance: dg.DagsterInstance, new_owner: Callable[[dg.DagsterInstance, str], str]
) -> None:
    queue.publish("a")
    owners: list[str] = []

    def robbed(batch: ClaimedBatch) -> None:
        owners.append(new_owner(instance, batch.lease.owner))
        queue.adopt(batch.lease.id, owner=owners[0])
        raise ValueError

    result = run(robbed, retries=1)
    assert not result.success
    assert f"it is owned by {owners[0]!r}" in str(result.failure_data_for_node("worked").error)  # type: ignore[union-attr]
    assert [(lease.owner, lease.takeovers) for lease in queue.admin.leases()] == [(owners[0], 1)]


def test_the_lease_of_a_deleted_run_of_the_group_is_taken_over(
    run: Run, queue: LeasedQueue, seen: list[list[Any]]
) -> None:
    queue.publish("a")
    gone = "01234567-89ab-cdef-0123-456789abcdef"

    def left_behind(batch: ClaimedBatch) -> None:
        seen.append(batch.payloads)
        if len(seen) == 1:
            queue.adopt(batch.lease.id, owner=gone)
            raise ValueError

    assert run(left_behind, retries=1).success
    assert seen == [["a"], ["a"]]


def test_a_heartbeat_holds_the_lease_longer_than_it_lasts(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_url: str
) -> None:
    queue.publish("a")
    resource = RedisQueueResource(url=redis_url, lease_seconds=6)

    @dg.op
    def slow(context: dg.OpExecutionContext) -> None:
        with resource.claimed(context, queue.name) as batch:
            (claimed,) = queue.admin.leases()
            eventually(lambda: queue.admin.leases()[0].deadline > claimed.deadline)
            batch.check()

    @dg.job
    def work() -> None:
        slow()

    assert work.execute_in_process(instance=instance).success
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    resource.close()


def test_a_step_may_claim_in_several_consecutive_blocks(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, seen: list[list[Any]]
) -> None:
    queue.publish_many(["a", "b", "c"])

    @dg.op
    def drain(context: dg.OpExecutionContext) -> None:
        for _ in range(2):
            terms: Any = {"on_settled": "next", "max_messages": 1}
            with redis_queue.claimed(context, queue.name, config=CONFIG, **terms) as batch:
                seen.append([*batch.payloads, batch.acked_before])

    @dg.job
    def work() -> None:
        drain()

    result = work.execute_in_process(instance=instance)
    assert result.success
    assert seen == [["a", None], ["b", None]]
    assert queue.stats().ready == 1
    record = instance.get_run_by_id(result.run_id)
    assert record is not None
    assert record.tags[CLAIMED] == "2"


def test_a_block_inside_another_of_the_same_queue_does_not_take_over_its_messages(
    instance: dg.DagsterInstance, redis_queue: RedisQueueResource, queue: LeasedQueue
) -> None:
    queue.publish_many(["a", "b"])

    @dg.asset
    def nested(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> None:
        with redis_queue.claimed(context, queue.name, max_messages=1, on_settled="next") as outer:
            with (
                pytest.raises(ConfigurationError, match="end that one before the next"),
                redis_queue.claimed(context, queue.name, max_messages=1, on_settled="next"),
            ):
                pass
            outer.check()

    assert dg.materialize([nested], instance=instance, resources={"redis_queue": redis_queue}).success
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)


def test_a_second_claim_in_a_step_without_a_name_of_its_own_is_refused_and_not_empty(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, seen: list[list[Any]]
) -> None:
    """An empty batch would end the loop after one batch, in success, while messages are ready."""
    queue.publish_many(["a", "b", "c"])

    @dg.op
    def drain(context: dg.OpExecutionContext) -> None:
        while True:
            with redis_queue.claimed(context, queue.name, max_messages=1, config=CONFIG) as batch:
                if not batch:
                    break
                seen.append(batch.payloads)

    @dg.job
    def work() -> None:
        drain()

    with pytest.raises(ConfigurationError, match="on_settled='next'"):
        work.execute_in_process(instance=instance)
    assert seen == [["a"]]
    assert queue.stats()[:3] == (2, 0, 0)


def test_a_retried_step_continues_with_the_block_that_failed(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, seen: list[list[Any]]
) -> None:
    queue.publish_many(["a", "b", "c", "d", "e"])

    @dg.op(retry_policy=dg.RetryPolicy(max_retries=1))
    def drain(context: dg.OpExecutionContext) -> None:
        while True:
            with redis_queue.claimed(context, queue.name, max_messages=2, on_settled="next", config=CONFIG) as batch:
                if not batch:
                    break
                seen.append([*batch.payloads, batch.lease.id.rpartition("/")[2], context.retry_number])
                if "c" in batch.payloads and not context.retry_number:
                    queue.publish("f")
                    raise ValueError

    @dg.job
    def work() -> None:
        drain()

    result = work.execute_in_process(instance=instance)
    assert result.success
    again = [["c", "d", "drain#2", 1], ["e", "f", "drain#3", 1]]
    assert seen == [["a", "b", "drain", 0], ["c", "d", "drain#2", 0], *again]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    record = instance.get_run_by_id(result.run_id)
    assert record is not None
    assert record.tags[CLAIMED] == "6"


def test_a_retry_skips_what_the_first_block_of_the_failed_try_acked(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, seen: list[list[Any]]
) -> None:
    second = f"{queue.name}-second"
    queue.publish("a")
    redis_queue.publish(second, ["b"], config=CONFIG)

    @dg.op(retry_policy=dg.RetryPolicy(max_retries=1))
    def both(context: dg.OpExecutionContext) -> None:
        with redis_queue.claimed(context, queue.name, config=CONFIG) as first:
            seen.append(first.payloads)
        with redis_queue.claimed(context, second, config=CONFIG) as batch:
            seen.append(batch.payloads)
            if len(seen) == 2:
                raise ValueError

    @dg.job
    def work() -> None:
        both()

    assert work.execute_in_process(instance=instance).success
    assert seen == [["a"], ["b"], [], ["b"]]
