"""Dead letters as an asset, and the job that redrives chosen ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedConfig, LeasedQueue
from rmq_dagster import (
    QueuePartitions,
    RedisQueueResource,
    redis_queue_dead_letters,
    redis_queue_definitions,
    redis_queue_observer,
    redis_queue_redrive_job,
)
from rmq_dagster.assets import dead_letters
from rmq_dagster.runs.identity import DATA_VERSION, REDRIVEN

# Dagster deprecates a function that it uses itself to make observable assets external ones.
pytestmark = pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning")

CONFIG = LeasedConfig(max_deliveries=1)
Observe = Callable[[], dg.AssetObservation]
Redrive = Callable[..., dg.ExecuteInProcessResult]


def die(url: str, queue: str, *deaths: tuple[str, str]) -> None:
    """Make dead letters of these payloads, for these reasons; each has its payload as the header `of`."""
    with LeasedQueue(url, queue, CONFIG) as strict:
        for payload, reason in deaths:
            strict.publish(payload, headers={"of": payload})
            lease = strict.claim()
            assert lease is not None
            strict.nack(lease, reason=reason)


@pytest.fixture
def key(queue: LeasedQueue) -> dg.AssetKey:
    return dg.AssetKey(f"{queue.name}_dead_letters")


@pytest.fixture
def observe(
    queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance, key: dg.AssetKey
) -> Observe:
    """Observe the dead letters of the queue in a run; return the observation."""
    asset = redis_queue_dead_letters(queue.name, config=CONFIG, newest=3, owners=["team:shop"])
    defs = dg.Definitions(assets=[asset], resources={"redis_queue": redis_queue})

    def run() -> dg.AssetObservation:
        job = defs.resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=instance, asset_selection=[key]).success
        (record,) = instance.fetch_observations(key, limit=1).records
        assert record.asset_observation is not None
        return record.asset_observation

    return run


@pytest.fixture
def redrive(queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance) -> Redrive:
    """Launch the redrive job with this run config."""
    job = redis_queue_redrive_job(queue.name, asset=dg.AssetKey(f"{queue.name}_dead_letters"), config=CONFIG)

    def run(**config: Any) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(
            instance=instance,
            resources={"redis_queue": redis_queue},
            run_config={"ops": {f"redrive_{queue.name}": {"config": config}}},
            raise_on_error=False,
        )

    return run


def records(observation: dg.AssetObservation, name: str) -> list[dict[str, Any]]:
    table: Any = observation.metadata[name]
    return [record.data for record in table.records]


def test_the_asset_shows_reasons_in_groups_and_the_newest_letters_without_their_payloads(
    observe: Observe, redis_url: str, queue: LeasedQueue
) -> None:
    secret = "payload-that-stays-in-redis"
    deaths = [("a", "cannot read 1"), ("b", "cannot read 22"), ("c", "no such table"), (secret, "cannot read 333")]
    die(redis_url, queue.name, *deaths)
    seen = observe()
    assert seen.metadata["rmq/dead_letters"].value == 4
    groups = [(record["reason"], record["count"]) for record in records(seen, "rmq/reasons")]
    assert groups == [("cannot read #", 3), ("no such table", 1)]
    newest = records(seen, "rmq/newest")
    assert [record["reason"] for record in newest] == ["cannot read 333", "no such table", "cannot read 22"]
    assert newest[0]["id"] == queue.admin.dead_letters(1)[0].id
    assert secret not in str(seen)


def test_the_version_changes_when_a_newer_letter_arrives_and_not_when_letters_leave(
    observe: Observe, redis_url: str, queue: LeasedQueue
) -> None:
    die(redis_url, queue.name, ("a", "x"))
    time.sleep(0.002)  # times of failures have milliseconds
    die(redis_url, queue.name, ("b", "y"))
    first = observe().tags[DATA_VERSION]
    assert observe().tags[DATA_VERSION] == first
    queue.admin.discard([queue.admin.dead_letters(1)[0].id])
    assert observe().tags[DATA_VERSION] == first
    queue.admin.purge("dead")
    assert observe().tags[DATA_VERSION] == first
    die(redis_url, queue.name, ("c", "x"))
    assert observe().tags[DATA_VERSION] != first


def test_a_very_long_list_is_read_in_part_and_says_so(
    observe: Observe, redis_url: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(redis_url, queue.name, *[(f"m{number}", "x") for number in range(1500)])
    assert "rmq/reasons_of_newest" not in observe().metadata
    monkeypatch.setattr(dead_letters, "LETTERS_READ", 1000)
    seen = observe().metadata
    assert seen["rmq/dead_letters"].value == 1500
    assert 1000 <= seen["rmq/reasons_of_newest"].value < 1500  # type: ignore[operator]


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ({"reason": "cannot read #"}, ["c"]),
        ({"group": "cannot read #"}, ["c"]),
        ({"reason": "no such*"}, ["a", "b"]),
        ({"text": "b"}, ["a", "c"]),
        ({"header": "of=c"}, ["a", "b"]),
        ({"reason": "cannot read #", "text": "a"}, ["b", "c"]),
        ({"reason": "cannot read #", "max_messages": 1}, ["b", "c"]),
        ({"everything": True}, []),
    ],
)
def test_a_redrive_moves_the_letters_that_meet_its_conditions_and_counts_them(
    redrive: Redrive,
    redis_url: str,
    queue: LeasedQueue,
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    conditions: dict[str, Any],
    left: list[str],
) -> None:
    die(redis_url, queue.name, ("a", "cannot read 1"), ("b", "cannot read 22"), ("c", "no such table"))
    result = redrive(**conditions)
    assert sorted(message.payload for message in queue.admin.dead_letters(9)) == left
    assert result.output_for_node(f"redrive_{queue.name}") == 3 - len(left)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags[REDRIVEN] == str(3 - len(left))
    (output,) = [event for event in result.all_events if event.is_successful_output]
    metadata = output.step_output_data.metadata
    assert (metadata["rmq/redriven"].value, metadata["rmq/dead_letters"].value) == (3 - len(left), len(left))
    (record,) = instance.fetch_observations(key, limit=1).records
    assert record.asset_observation is not None
    assert record.asset_observation.metadata["rmq/dead_letters"].value == len(left)


@pytest.mark.parametrize(
    ("conditions", "complaint"),
    [
        ({}, "needs a condition"),
        ({"everything": True, "reason": "x"}, "but not both"),
        ({"text": ""}, "text must be a text that is not empty"),
        ({"reason": "x", "partition": "de"}, "partition must be given"),
    ],
)
def test_a_redrive_without_a_clear_choice_moves_nothing(
    redrive: Redrive, redis_url: str, queue: LeasedQueue, conditions: dict[str, Any], complaint: str
) -> None:
    die(redis_url, queue.name, ("a", "x"))
    result = redrive(**conditions)
    assert complaint in str(result.failure_data_for_node(f"redrive_{queue.name}"))
    assert queue.stats().dead == 1


def test_a_redrive_of_partitions_names_the_partition(
    redis_url: str, queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    countries = QueuePartitions(queue.name, dg.DynamicPartitionsDefinition(name="countries"))
    for country in ("de", "fr"):
        die(redis_url, countries.queue(country), (country, "x"))
    job = redis_queue_redrive_job(countries, config=CONFIG)
    config = {"ops": {f"redrive_{queue.name}": {"config": {"everything": True, "partition": "fr"}}}}
    run = job.execute_in_process(instance=instance, resources={"redis_queue": redis_queue}, run_config=config)
    assert run.success
    assert [redis_queue.stats(countries.queue(country)).dead for country in ("de", "fr")] == [1, 0]


def test_the_observer_reports_dead_letters_when_they_changed(
    redis_url: str, queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance, key: dg.AssetKey
) -> None:
    observer = redis_queue_observer(queue.name, asset="looked_at", dead_letters=key, config=CONFIG)

    def counted() -> list[Any]:
        with dg.build_sensor_context(instance, resources={"redis_queue": redis_queue}) as context:
            result: Any = observer(context)
        seen = [event for event in result.asset_events if event.asset_key == key]
        for event in seen:
            instance.report_runless_asset_event(event)
        return [event.metadata["rmq/dead_letters"].value for event in seen]

    assert counted() == [0]
    assert counted() == []
    die(redis_url, queue.name, ("a", "x"))
    assert counted() == [1]
    assert counted() == []
    queue.admin.purge("dead")
    die(redis_url, queue.name, ("b", "x"))
    assert counted() == [1]  # as many as before, but another one


def test_the_definitions_of_a_queue_include_its_dead_letters_and_their_redrive(redis_queue: RedisQueueResource) -> None:
    defs = redis_queue_definitions("orders", target="invoices", resource=redis_queue)
    assert defs.resolve_job_def("orders_redrive")
    node = defs.resolve_asset_graph().get(dg.AssetKey("orders_dead_letters"))
    assert node.parent_keys == {dg.AssetKey("orders_queue")}
