# ruff: noqa: I002 - Dagster compares the annotation of `context` with its own class, so it must not become a string
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError

from rmq_core import LeasedQueue
from rmq_dagster import ClaimedBatch, RedisQueueResource
from rmq_dagster.tags import CLAIMED
from tests.dagster.pipeline import CONFIG
from tests.faults.patience import eventually

Work = Callable[[ClaimedBatch], None]
Run = Callable[..., dg.ExecuteInProcessResult]


def asset_of(queue: str, work: Work, retries: int = 0, **terms: Any) -> dg.AssetsDefinition:
    policy = dg.RetryPolicy(max_retries=retries) if retries else None

    @dg.asset(name="worked", retry_policy=policy, partitions_def=dg.StaticPartitionsDefinition(["north"]))
    def worked(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        with redis_queue.claimed(context, queue, config=CONFIG, **terms) as batch:
            work(batch)
            return dg.MaterializeResult(metadata=batch.metadata)

    return worked


@pytest.fixture
def run(queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Run:
    """Materialize an asset that claims and then does the work given."""

    def materialize(work: Work, retries: int = 0, tags: dict[str, str] | None = None, **terms: Any) -> Any:
        return dg.materialize(
            [asset_of(queue.name, work, retries, **terms)],
            instance=instance,
            resources={"redis_queue": redis_queue},
            partition_key="north",
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


def test_a_block_that_ends_well_acks_and_tells_what_it_claimed(
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


def test_the_run_owns_the_lease_while_it_works(run: Run, queue: LeasedQueue, seen: list[list[Any]]) -> None:
    queue.publish("a")
    result = run(lambda batch: seen.append(queue.leases()))
    ((lease,),) = seen
    assert (lease.owner, lease.id) == (result.run_id, f"{result.run_id}/worked/north")


def test_an_empty_run_succeeds_and_says_so(run: Run, seen: list[list[Any]]) -> None:
    result = run(lambda batch: seen.append([bool(batch), list(batch), batch.payloads]))
    assert result.success
    assert seen == [[False, [], []]]
    assert metadata(result)["rmq/claimed"] == 0


def test_the_last_try_nacks_with_the_reason(run: Run, queue: LeasedQueue) -> None:
    queue.publish("a")
    assert not run(fails).success
    (message,) = queue.peek()
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
    assert [message.payload for message in queue.peek(9)] == ["a later one"] * 2


def test_a_failure_that_allows_no_retries_nacks_although_there_is_a_policy(run: Run, queue: LeasedQueue) -> None:
    queue.publish("a")

    def forbids(batch: ClaimedBatch) -> None:
        raise dg.Failure("hopeless", allow_retries=False)

    assert not run(forbids, retries=3).success
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)


def test_a_retry_that_the_step_asks_for_itself_gets_the_same_messages(
    run: Run, queue: LeasedQueue, seen: list[list[Any]]
) -> None:
    queue.publish("a")

    def asks_once(batch: ClaimedBatch) -> None:
        seen.append(batch.payloads)
        if len(seen) == 1:
            queue.publish("b")
            raise dg.RetryRequested(max_retries=1)

    assert run(asks_once).success
    assert seen == [["a"], ["a"]]


def test_an_interrupted_run_gives_back_untouched(run: Run, queue: LeasedQueue) -> None:
    queue.publish("a")

    def interrupted(batch: ClaimedBatch) -> None:
        raise DagsterExecutionInterruptedError

    assert not run(interrupted).success
    (message,) = queue.peek()
    assert (message.deliveries, message.history) == (0, ())


def test_messages_settled_one_by_one_stay_so_and_the_rest_follows_the_block(run: Run, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b", "c", "d"])

    def some(batch: ClaimedBatch) -> None:
        first, second, third, _ = batch
        batch.ack(first)
        batch.nack(second, reason="bad one")
        batch.release(third)
        raise ValueError("the last one")

    assert not run(some).success
    reasons = {m.payload: [failure.reason for failure in m.history] for m in queue.peek(9)}
    assert reasons == {"b": ["bad one"], "c": [], "d": ["ValueError: the last one"]}


def test_a_block_that_settled_everything_itself_ends_well(run: Run, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    assert run(lambda batch: batch.ack(*batch)).success
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_lease_that_was_taken_away_fails_the_step_and_hurts_nobody(run: Run, queue: LeasedQueue) -> None:
    queue.publish("a")

    def robbed(batch: ClaimedBatch) -> None:
        queue.adopt(batch.lease.id, owner="somebody else")

    result = run(robbed)
    assert not result.success
    assert "is lost" in str(result.failure_data_for_node("worked").error)  # type: ignore[union-attr]
    (lease,) = queue.leases()
    assert lease.owner == "somebody else"


def test_a_heartbeat_holds_the_lease_longer_than_it_lasts(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_url: str
) -> None:
    queue.publish("a")
    resource = RedisQueueResource(url=redis_url, lease_seconds=6)

    @dg.op
    def slow(context: dg.OpExecutionContext) -> None:
        with resource.claimed(context, queue.name) as batch:
            (claimed,) = queue.leases()
            eventually(lambda: queue.leases()[0].deadline > claimed.deadline)
            batch.check()

    @dg.job
    def work() -> None:
        slow()

    assert work.execute_in_process(instance=instance).success
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    resource.close()


def test_the_work_of_a_step_can_be_repeated_in_one_block_after_the_other(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, seen: list[list[Any]]
) -> None:
    queue.publish_many(["a", "b", "c"])

    @dg.op
    def drain(context: dg.OpExecutionContext) -> None:
        for on_settled in ("next", "next", "skip"):
            terms: Any = {"on_settled": on_settled, "max_messages": 1}
            with redis_queue.claimed(context, queue.name, config=CONFIG, **terms) as batch:
                seen.append([*batch.payloads, batch.acked_before])

    @dg.job
    def work() -> None:
        drain()

    assert work.execute_in_process(instance=instance).success
    assert seen == [["a", None], ["b", None], [1]]
    assert queue.stats().ready == 1
