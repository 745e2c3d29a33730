"""What becomes of the messages of a step whose result is stored after the work, or cannot be stored."""

# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
import gc
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob  # no public function executes an existing run
from dagster._core.execution.api import execute_run

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource
from rmq_dagster.runs import claiming
from tests.dagster.pipeline import CONFIG
from tests.faults.patience import eventually


class Warehouse(dg.IOManager):
    """An IO manager whose first `failures` attempts to store raise."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.stored: list[Any] = []

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise ConnectionError("the warehouse is down")
        self.stored.append(obj)

    def load_input(self, context: dg.InputContext) -> None: ...


def storing(
    redis_queue: RedisQueueResource, queue: LeasedQueue, warehouse: Warehouse, retries: int, *, yields: bool
) -> dg.JobDefinition:
    """A job whose step passes the claimed payloads to the warehouse."""
    policy = dg.RetryPolicy(max_retries=retries) if retries else None

    @dg.op(name="kept", retry_policy=policy)
    def returns(context: dg.OpExecutionContext) -> list[Any]:
        with redis_queue.claimed(context, queue.name, config=CONFIG) as batch:
            return batch.payloads

    @dg.op(name="kept", retry_policy=policy)
    def yields_it(context: dg.OpExecutionContext) -> Iterator[dg.Output[list[Any]]]:
        with redis_queue.claimed(context, queue.name, config=CONFIG) as batch:
            yield dg.Output(batch.payloads)

    resources = {"io_manager": dg.IOManagerDefinition.hardcoded_io_manager(warehouse)}

    @dg.job(resource_defs=resources, executor_def=dg.in_process_executor)
    def work() -> None:
        (yields_it if yields else returns)()

    return work


def test_a_value_that_is_yielded_in_the_block_is_stored_before_the_ack(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    queue.publish_many(["a", "b"])
    warehouse = Warehouse(failures=1)
    job = storing(redis_queue, queue, warehouse, retries=1, yields=True)
    assert job.execute_in_process(instance=instance, raise_on_error=False).success
    assert warehouse.stored == [["a", "b"]]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_yielded_value_that_cannot_be_stored_nacks_after_the_last_try(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, retries: int
) -> None:
    queue.publish("a")
    job = storing(redis_queue, queue, Warehouse(failures=9), retries, yields=True)
    assert not job.execute_in_process(instance=instance, raise_on_error=False).success
    gc.collect()  # Dagster's record of the last failure references the step as long as the process of the run lives
    (message,) = queue.admin.peek()
    assert message.deliveries == retries + 1
    assert message.history[-1].reason == "ConnectionError: the warehouse is down"


def test_a_step_closed_by_dagsters_event_log_settles_its_lease_without_waiting(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "CLOSING_S", 0.2)

    def working(context: dg.OpExecutionContext) -> Iterator[None]:
        with redis_queue.claimed(context, queue.name, config=CONFIG):
            yield

    @dg.op
    def closed(context: dg.OpExecutionContext) -> None:
        step = working(context)
        next(step)
        with context.instance.event_log_storage.index_connection():  # it takes the lock of the whole event log
            step.close()  # as the garbage collector does, at any point

    @dg.job(executor_def=dg.in_process_executor)
    def work() -> None:
        closed()

    queue.publish("a")
    assert work.execute_in_process(instance=instance, raise_on_error=False).success
    eventually(lambda: queue.stats().ready == 1)
    (message,) = queue.admin.peek()
    assert message.history[-1].reason == "the result could not be stored"


def test_a_retry_never_overwrites_a_returned_value_that_was_not_stored_with_an_empty_one(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    """Neither a retry of the step nor the run after it overwrites the value."""
    queue.publish_many(["a", "b"])
    warehouse = Warehouse(failures=1)
    job = storing(redis_queue, queue, warehouse, retries=3, yields=False)
    failed = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not failed.success
    assert "2 message(s)" in why_failed(instance, failed)
    assert "2 message(s)" in why_failed(instance, again(job, instance, failed.run_id))
    assert warehouse.stored == []


def test_a_re_executed_run_whose_value_was_stored_processes_nothing(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    queue.publish("a")
    warehouse = Warehouse(failures=0)
    job = storing(redis_queue, queue, warehouse, retries=0, yields=False)
    first = job.execute_in_process(instance=instance)
    assert again(job, instance, first.run_id).success
    assert warehouse.stored == [["a"], []]


def why_failed(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult | dg.JobExecutionResult) -> str:
    (entry,) = instance.all_logs(result.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return str(entry.dagster_event.step_failure_data.error)  # type: ignore[union-attr]


def again(job: dg.JobDefinition, instance: dg.DagsterInstance, run_id: str) -> dg.JobExecutionResult:
    """Re-execute a run as the daemon and the UI do."""
    tags = {"dagster/root_run_id": run_id, "dagster/parent_run_id": run_id}
    made = instance.create_run_for_job(job, root_run_id=run_id, parent_run_id=run_id, tags=tags)
    return execute_run(InMemoryJob(job), made, instance)
