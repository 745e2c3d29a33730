# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""What a step publishes through an outbox is published once, whatever try of it fails where."""

from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob  # no public function executes an existing run
from dagster._core.execution.api import execute_run

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource
from rmq_dagster.components import RedisQueuePublishComponent

IN, BETWEEN, AFTER = "in", "between", "after"


@pytest.mark.parametrize("fails", [IN, BETWEEN, AFTER, None])
def test_a_retried_step_publishes_each_block_once(
    fails: str | None, queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    seen: list[bool | None] = []

    @dg.op(retry_policy=dg.RetryPolicy(max_retries=1))
    def publisher(context: dg.OpExecutionContext) -> None:
        def at(place: str) -> None:
            if place == fails and not context.retry_number:
                raise ValueError

        with redis_queue.outbox(context, queue.name) as first:
            assert first.publish(["a", "b"]) == 2
            assert queue.stats().ready == (0, 2, 3)[len(seen)], "invisible until the end of the block"
            at(IN)
        seen.append(first.published)
        at(BETWEEN)
        with redis_queue.outbox(context, queue.name) as second:
            second.publish(["c"])
        seen.append(second.published)
        at(AFTER)

    @dg.job
    def work() -> None:
        publisher()

    assert work.execute_in_process(instance=instance).success
    assert [message.payload for message in queue.admin.peek(9)] == ["a", "b", "c"]
    assert all(message.headers["dagster-step-key"] == "publisher" for message in queue.admin.peek(9))
    expected = {None: [True, True], IN: [True, True], BETWEEN: [True, False, True], AFTER: [True, True, False, False]}
    assert seen == expected[fails]


def test_a_re_execution_publishes_nothing_again_and_another_run_does(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    @dg.op
    def publisher(context: dg.OpExecutionContext) -> None:
        with redis_queue.outbox(context, queue.name) as outbox:
            outbox.publish(["a"])

    @dg.job(executor_def=dg.in_process_executor)
    def work() -> None:
        publisher()

    first = work.execute_in_process(instance=instance)
    tags = {"dagster/root_run_id": first.run_id, "dagster/parent_run_id": first.run_id}
    again = instance.create_run_for_job(work, root_run_id=first.run_id, parent_run_id=first.run_id, tags=tags)
    assert execute_run(InMemoryJob(work), again, instance).success
    assert queue.stats().ready == 1
    assert work.execute_in_process(instance=instance).success
    assert queue.stats().ready == 2


@pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning")
def test_a_re_executed_component_publishes_only_to_the_queues_that_its_run_had_not_published_to(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    component = RedisQueuePublishComponent(
        queue=queue.name, asset=dg.AssetSpec("orders"), partitions="countries", partition_by="country", once=True,
        messages=[{"country": "de", "n": 1}, {"country": "fr"}, {"country": "de", "n": 2}],
    )  # fmt: skip
    assets = component.build_defs(dg.ComponentTree.for_test().load_context)
    settings = dg.Definitions(resources={"redis_queue": redis_queue}, executor=dg.in_process_executor)
    work = dg.Definitions.merge(assets, settings).resolve_implicit_global_asset_job_def()
    de, fr = (redis_queue.queue(f"{queue.name}/{country}") for country in ("de", "fr"))
    fr.admin.configure(max_ready=1)
    fr.publish("there is no room")

    def run(**options: str) -> dg.DagsterRun:
        tags = {f"dagster/{name}": run_id for name, run_id in options.items()}
        made = instance.create_run_for_job(work, tags=tags, **options)  # type: ignore[arg-type]
        execute_run(InMemoryJob(work), made, instance)
        return made

    def materialized() -> tuple[Any, ...]:
        (event,) = instance.fetch_materializations(dg.AssetKey("orders"), limit=1).records
        found = event.asset_materialization
        return tuple(found.metadata[f"rmq/{count}"].value for count in ("published", "duplicates")) if found else ()

    first = run()
    assert (de.stats().ready, fr.stats().ready) == (2, 1), "QueueFull"
    fr.admin.purge("ready")
    run(root_run_id=first.run_id, parent_run_id=first.run_id)
    assert (de.stats().ready, fr.stats().ready) == (2, 1)
    assert fr.claim().message.payload == {"country": "fr"}  # type: ignore[union-attr]
    assert materialized() == (1, 2)
    run()
    assert (de.stats().ready, fr.stats().ready) == (4, 1), "it is another run"
