# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""A lease reaches a driver as an extra of Dagster Pipes; Dagster's own client runs the driver."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError, LeasedQueue
from rmq_dagster import RedisQueueResource
from tests.dagster.pipeline import CONFIG, ROOT

DRIVER = Path(__file__).parent / "pipes_driver.py"
CANARY = "canary-7c20"
# Dagster's own Pipes session calls what Dagster itself deprecates or calls a preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
]

Materialize = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def materialize(queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Materialize:
    """Run an asset whose drivers behave as told, try by try."""

    def run(*behaviours: str, **options: Any) -> dg.ExecuteInProcessResult:
        left = list(behaviours)

        @dg.asset(name="worked", retry_policy=dg.RetryPolicy(max_retries=len(behaviours) - 1))
        def worked(context: dg.AssetExecutionContext) -> Any:
            with redis_queue.submitted(context, queue.name, config=CONFIG, **options) as batch:
                if batch:
                    dg.PipesSubprocessClient(env={"PYTHONPATH": str(ROOT)}).run(
                        context=context,
                        command=[sys.executable, str(DRIVER), left.pop(0)],
                        extras={"mine": 5, **batch.extras},
                    )
                return dg.MaterializeResult(metadata=batch.metadata)

        return dg.materialize([worked], instance=instance, raise_on_error=False)

    return run


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    *_, event = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    return str(event.step_failure_data.error)


def test_a_driver_adopts_the_lease_of_its_extras_and_acks_it(materialize: Materialize, queue: LeasedQueue) -> None:
    queue.publish_many("ab")
    result = materialize("ack")
    assert result.success
    record = queue.settled(f"{result.run_id}/worked")
    assert record is not None
    assert (record.acked, record.owner) == (2, result.run_id)
    told = metadata(result)
    assert (told["rmq/claimed"], told["rmq/lease_id"]) == (2, f"{result.run_id}/worked")


def test_a_driver_that_never_adopts_is_no_success(materialize: Materialize, queue: LeasedQueue) -> None:
    queue.publish_many("ab")
    result = materialize("ignore")
    assert not result.success
    assert "no driver adopted" in failure(result)
    assert [message.deliveries for message in queue.admin.peek(5)] == [1, 1]


def test_the_step_acks_for_a_driver_that_cannot_adopt(materialize: Materialize, queue: LeasedQueue) -> None:
    queue.publish_many("ab")
    assert materialize("ignore", ack_unadopted=True).success
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_the_extras_refer_to_the_secret_and_a_missing_reference_is_refused_before_the_claim(
    queue: LeasedQueue, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured = RedisQueueResource(url="redis://cache:1", password=CANARY)
    monkeypatch.setattr(RedisQueueResource, "queue", lambda *_: queue)
    queue.publish("a")
    found: list[dict[str, Any]] = []

    @dg.op
    def submit(context: dg.OpExecutionContext) -> None:
        with pytest.raises(ConfigurationError, match="'password': 'env:"), secured.submitted(context, queue.name):
            pytest.fail("it claimed")
        assert queue.stats().leased == 0
        referring = secured.submitted(context, queue.name, secrets={"password": "aws:redis"}, ack_unadopted=True)
        with referring as batch:
            found.append({**batch.extras, "parameters": batch.parameters})

    @dg.job
    def submits() -> None:
        submit()

    assert submits.execute_in_process(instance=instance).success
    assert CANARY not in json.dumps(found)
    assert found[0]["rmq_handover"]["credentials"] == {"password": "aws:redis"}
