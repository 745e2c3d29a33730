# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""The block after a driver: its end acks, so a result that cannot be built acks nothing."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster import LeasedInvocation, PipesRedisQueueSparkClient, RedisQueueResource
from tests.dagster.pipeline import CONFIG, DRIVER, ROOT, notes

# Dagster's own Pipes session calls what Dagster itself deprecates or calls a preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
]

Block = Callable[[LeasedInvocation], None]
Run = Callable[[str, Block], dg.ExecuteInProcessResult]


@pytest.fixture
def run(queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, seen: Path) -> Run:
    """Run a driver that behaves as configured, then the block; at most two tries."""

    def materialize(behaviour: str, block: Block) -> dg.ExecuteInProcessResult:
        @dg.asset(retry_policy=dg.RetryPolicy(max_retries=1))
        def worked(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
            pipes = PipesRedisQueueSparkClient(redis_queue, queue.name, CONFIG)
            command = [sys.executable, str(DRIVER), behaviour, str(seen)]
            with pipes.completed(context=context, command=command, env={"PYTHONPATH": str(ROOT)}) as driver:
                block(driver)
                return driver.get_materialize_result()

        return dg.materialize([worked], instance=instance, raise_on_error=False)

    return materialize


def test_the_messages_are_held_until_the_result_is_built_and_then_acked(run: Run, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    held: list[int] = []
    assert run("succeed", lambda driver: held.append(queue.stats().leased)).success
    assert held == [2]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_result_that_cannot_be_built_acks_nothing_and_the_retry_gets_the_same_messages(
    run: Run, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish_many(["a", "b"])

    def fails_once(driver: LeasedInvocation) -> None:
        queue.publish("a later one")
        if len(notes(seen)) == 1:
            raise ValueError("no plot")

    assert run("succeed", fails_once).success
    first, second = notes(seen)
    assert first["lease_id"] == second["lease_id"]
    assert [message.payload for message in queue.admin.peek(9)] == ["a later one"] * 2


def test_messages_that_the_driver_acked_stay_acked_and_the_retry_has_nothing_to_do(
    run: Run, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish("a")
    empty: list[bool] = []

    def fails_once(driver: LeasedInvocation) -> None:
        empty.append(driver.claimed == 0)
        if not empty[-1]:
            raise ValueError("no plot")

    result = run("adopt", fails_once)
    assert result.success
    assert empty == [False, True]
    assert len(notes(seen)) == 1
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["rmq/acked_before"].value == 1
