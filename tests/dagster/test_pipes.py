from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedQueue, Message, embedded
from rmq_dagster import RedisQueueResource
from rmq_dagster.runs.identity import CLAIMED
from tests.dagster import pipeline
from tests.dagster.pipeline import Work, notes

# Dagster's own Pipes session calls what Dagster itself deprecates or calls a preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
]

Materialize = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def materialize(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, seen: Path
) -> Materialize:
    """Run an asset whose drivers behave as configured, try by try."""

    def run(*behaviours: str, asset: dg.AssetsDefinition = pipeline.worked, **work: Any) -> dg.ExecuteInProcessResult:
        resources = {
            "redis_queue": redis_queue,
            "work": Work(queue=queue.name, behaviours=list(behaviours), seen=str(seen), **work),
        }
        return dg.materialize([asset], instance=instance, resources=resources, raise_on_error=False)

    return run


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def ready(queue: LeasedQueue) -> list[Message]:
    """Return the ready payloads, oldest first; claims nothing."""
    return queue.admin.peek(1000)


def test_the_run_acks_for_a_successful_driver_without_rmq(
    materialize: Materialize, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish_many(["a", "b", "c"])
    result = materialize("succeed")
    assert result.success
    told = metadata(result)
    assert told.pop("rmq/processed_per_minute") == pytest.approx(180 / told.pop("rmq/seconds"), rel=0.1)
    assert told == {
        "rmq/queue": queue.name,
        "rmq/lease_id": f"{result.run_id}/worked",
        "rmq/claimed": 3,
        "rmq/acked": 3,
    }
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    (driver,) = notes(seen)
    assert (driver["queue"], driver["lease_id"], driver["owner"]) == (
        queue.name,
        f"{result.run_id}/worked",
        result.run_id,
    )


def test_a_driver_of_isolated_messages_gets_half_of_them_and_the_result_reports_it(
    materialize: Materialize, queue: LeasedQueue
) -> None:
    queue.publish_many(["a", "b", "c", "d"])
    for _ in range(2):
        assert not materialize("fail").success
    told = metadata(materialize("adopt"))
    assert (told["rmq/claimed"], told["rmq/asked"]) == (2, 100)
    assert told["rmq/isolated"].startswith("these have failed together before")


def test_a_driver_that_adopts_settles_itself_and_the_run_only_watches(
    materialize: Materialize, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish_many(["a", "b", "c"])
    result = materialize("adopt")
    assert result.success
    assert metadata(result)["rmq/acked"] == 3
    assert notes(seen)[0]["payloads"] == ["a", "b", "c"]
    record = queue.settled(f"{result.run_id}/worked")
    assert record is not None
    assert (record.acked, record.owner) == (3, result.run_id)


def test_a_run_claims_at_most_max_messages(materialize: Materialize, queue: LeasedQueue) -> None:
    queue.publish_many([f"m{number}" for number in range(5)])
    assert metadata(materialize("succeed", max_messages=2))["rmq/claimed"] == 2
    assert queue.stats().ready == 3


def test_the_run_is_tagged_with_what_it_claimed(
    materialize: Materialize, queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    queue.publish_many(["a", "b"])
    run = instance.get_run_by_id(materialize("succeed").run_id)
    assert run is not None
    assert run.tags[CLAIMED] == "2"


def test_the_last_failure_nacks_with_the_reason_and_a_delivery_counted(
    materialize: Materialize, queue: LeasedQueue
) -> None:
    queue.publish_many(["a", "b"])
    result = materialize("fail")
    assert not result.success
    assert queue.stats().leases == 0
    first, second = ready(queue)
    assert (first.payload, second.payload) == ("a", "b")
    (failure,) = first.history
    assert failure.kind == "nack"
    assert failure.owner == result.run_id
    assert "exit code 3" in failure.reason


def test_no_other_consumer_gets_the_messages_between_a_failure_and_its_retry(
    materialize: Materialize, queue: LeasedQueue, seen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish("a")
    between: list[Any] = []
    tries = pipeline.tries_so_far

    def check(path: Path) -> int:
        if tries(path) == 1:
            between.append((queue.claim(), queue.admin.leases()[0].deadline))
        return tries(path)

    monkeypatch.setattr(pipeline, "tries_so_far", check)
    assert materialize("fail", "succeed", asset=pipeline.worked_with_a_retry).success
    ((claimed, deadline),) = between
    assert claimed is None
    assert deadline.timestamp() - time.time() > 500  # the delay and a margin, not the 30 s of the lease


def test_a_driver_killed_by_sigkill_is_retried_on_the_same_lease(
    materialize: Materialize, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish_many(["a", "b"])
    result = materialize("adopt_and_die", "adopt", asset=pipeline.worked_with_a_retry)
    assert result.success
    first, second = notes(seen)
    assert first["payloads"] == second["payloads"]
    assert first["lease_id"] == second["lease_id"]
    (retry,) = [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    assert "SIGKILL" in str(retry.event_specific_data)


def test_a_message_that_always_fails_ends_as_a_dead_letter(materialize: Materialize, queue: LeasedQueue) -> None:
    queue.publish("poison")
    for _ in range(pipeline.CONFIG.max_deliveries or 0):
        assert not materialize("fail").success
    assert queue.stats().ready == 0
    assert [dead.payload for dead in queue.admin.dead_letters()] == ["poison"]


def test_a_driver_that_succeeds_without_settling_its_adopted_lease_is_a_failure(
    materialize: Materialize, queue: LeasedQueue
) -> None:
    queue.publish("a")
    result = materialize("adopt_and_forget")
    assert not result.success
    assert "unsettled" in str(result.failure_data_for_node("worked"))
    assert len(ready(queue)) == 1


def test_losing_the_lease_stops_the_driver_and_leaves_the_new_owner_alone(
    materialize: Materialize, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish("a")
    result = materialize("be_robbed")
    assert not result.success
    assert "LeaseOwnedByOther" in str(result.failure_data_for_node("worked"))
    assert [lease.owner for lease in queue.admin.leases()] == ["somebody else"]
    (driver,) = notes(seen)  # a second note would show that it was not stopped
    with pytest.raises(ProcessLookupError):
        os.kill(driver["pid"], 0)


def test_a_command_that_cannot_be_started_releases_the_messages(materialize: Materialize, queue: LeasedQueue) -> None:
    queue.publish("a")
    result = materialize("succeed", interpreter="/does/not/exist")
    assert not result.success
    assert len(ready(queue)) == 1


def test_an_outage_of_redis_when_the_driver_fails_hides_nothing_and_lets_the_lease_expire(
    instance: dg.DagsterInstance, seen: Path, tmp_path: Path
) -> None:
    url = f"embedded://{tmp_path / 'redis'}"
    resource = RedisQueueResource(url=url)
    resource.queue("fragile", pipeline.CONFIG).publish("a")
    work = Work(queue="fragile", behaviours=["break_redis"], seen=str(seen))
    result = dg.materialize(
        [pipeline.worked], instance=instance, resources={"redis_queue": resource, "work": work}, raise_on_error=False
    )
    assert not result.success
    assert "exit code 3" in str(result.failure_data_for_node("worked").error)  # type: ignore[union-attr]
    with LeasedQueue(url, "fragile", pipeline.CONFIG) as queue:  # starts the server again with its stored data
        assert [lease.owner for lease in queue.admin.leases()] == [result.run_id]
    embedded.stop(tmp_path / "redis")
