# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""Automation conditions downstream of a queue: they fire for work, and for nothing else."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedConfig, LeasedQueue
from rmq_dagster import RedisQueueResource, redis_queue_asset, redis_queue_observer
from rmq_dagster.assets import queue as versions
from rmq_dagster.runs.identity import DATA_VERSION
from tests.dagster.pipeline import CONFIG

# Dagster's tester of automation conditions uses what Dagster marks as beta, and observable assets what it deprecates.
pytestmark = [
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning"),
    pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning"),
]
Observe = Callable[[], bool]


@pytest.fixture
def key(queue: LeasedQueue) -> dg.AssetKey:
    return dg.AssetKey(f"{queue.name}_queue")


@pytest.fixture
def defs(queue: LeasedQueue, redis_queue: RedisQueueResource, key: dg.AssetKey) -> dg.Definitions:
    """A queue as an asset, and an asset downstream that works on two of its messages."""

    @dg.asset(deps=[key], automation_condition=dg.AutomationCondition.eager())
    def invoices(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        with redis_queue.claimed(context, queue.name, max_messages=2, config=CONFIG) as batch:
            if "bad" in batch.payloads:
                raise ValueError("bad")
            return dg.MaterializeResult(metadata=batch.metadata)

    asset = redis_queue_asset(queue.name, key=key, config=CONFIG)
    return dg.Definitions(assets=[asset, invoices], resources={"redis_queue": redis_queue})


class Automation:
    """Observations of a queue, each followed by an evaluation of all conditions."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance, observe: Callable[[], None]) -> None:
        self.defs, self.instance, self.observe = defs, instance, observe
        self.cursor: Any = None

    def fires(self) -> bool:
        """Observe the queue; return whether the condition of the asset downstream requests a run."""
        self.observe()
        return self.evaluate()

    def evaluate(self) -> bool:
        found = dg.evaluate_automation_conditions(self.defs, self.instance, cursor=self.cursor)
        self.cursor = found.cursor
        return found.total_requested > 0

    def run(self) -> bool:
        """Run the asset downstream; its end is evaluated before the next observation."""
        succeeded = materialize(self.defs, self.instance, dg.AssetKey("invoices"))
        assert not self.evaluate()
        return succeeded


def materialize(defs: dg.Definitions, instance: dg.DagsterInstance, key: dg.AssetKey) -> bool:
    job = defs.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, asset_selection=[key], raise_on_error=False).success


@pytest.fixture(params=["run", "observer"])
def automation(
    request: pytest.FixtureRequest,
    defs: dg.Definitions,
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
) -> Automation:
    """The queue is observed by a run, or by a tick of its observer."""
    observer = redis_queue_observer(queue.name, asset=key, config=CONFIG)

    def tick() -> None:
        with dg.build_sensor_context(instance, resources={"redis_queue": redis_queue}) as context:
            result: Any = observer(context)
        instance.report_runless_asset_event(result.asset_events[0])

    def run() -> None:
        assert materialize(defs, instance, key)

    return Automation(defs, instance, {"run": run, "observer": tick}[request.param])


def test_an_eager_asset_runs_when_its_queue_has_work_and_only_then(automation: Automation, queue: LeasedQueue) -> None:
    automation.run()  # it was materialized before, else Dagster requests it because it is missing
    assert not automation.fires()  # the first observation, of an empty queue
    assert not automation.fires()
    queue.publish_many(["a", "b", "c"])
    assert automation.fires()
    assert not automation.fires()  # the same messages wait
    automation.run()
    assert automation.fires()  # a batch of two leaves one
    automation.run()
    assert not automation.fires()  # drained
    assert not automation.fires()
    queue.publish("d")
    assert automation.fires()  # published again
    automation.run()
    assert not automation.fires()


def test_an_asset_that_was_never_materialized_also_runs_at_the_first_observation(
    automation: Automation, queue: LeasedQueue
) -> None:
    assert not automation.evaluate()
    assert automation.fires()
    automation.run()
    assert not automation.fires()


def test_work_that_waits_for_a_minute_is_announced_again(
    automation: Automation, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster forgets a change that it sees together with the end of a run."""
    automation.run()
    queue.publish_many(["a", "b", "c"])
    assert automation.fires()
    assert materialize(automation.defs, automation.instance, dg.AssetKey("invoices"))
    assert not automation.fires()
    monkeypatch.setattr(versions, "SAME_WORK_S", 0)
    assert automation.fires()


def test_a_paused_queue_has_no_work(automation: Automation, queue: LeasedQueue) -> None:
    automation.run()
    queue.publish("a")
    queue.admin.pause()
    assert not automation.fires()
    queue.admin.resume()
    assert automation.fires()


def test_work_is_noticed_when_no_client_counts(automation: Automation, redis_url: str, queue: LeasedQueue) -> None:
    automation.run()
    with LeasedQueue(redis_url, queue.name, LeasedConfig(history=False)) as uncounted:
        for payload in ("a", "b"):
            uncounted.publish(payload)
            assert automation.fires()
            lease = uncounted.claim()
            assert lease is not None
            uncounted.ack(lease)
            assert not automation.fires()
        uncounted.publish("c")
        assert automation.fires()
        assert not automation.evaluate()
        came_back = uncounted.claim()
        assert came_back is not None
        uncounted.nack(came_back, delay=0)
        assert automation.fires()


def test_an_observation_has_a_version_from_the_first_message_on(
    automation: Automation, queue: LeasedQueue, instance: dg.DagsterInstance, key: dg.AssetKey
) -> None:
    def version() -> str | None:
        (record,) = instance.fetch_observations(key, limit=1).records
        assert record.asset_observation is not None
        return record.asset_observation.tags.get(DATA_VERSION)

    automation.observe()
    assert version() is None
    queue.publish("a")
    automation.observe()
    first = version()
    assert first is not None
    queue.admin.purge("ready")
    automation.observe()
    assert version() == first
