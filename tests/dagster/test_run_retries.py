from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from tests.dagster import pipeline
from tests.dagster.pipeline import notes

# Dagster's own Pipes session calls what Dagster itself deprecates or calls a preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
]

Execute = Callable[..., dg.JobExecutionResult]


@pytest.fixture
def execute(
    queue: LeasedQueue, redis_url: str, seen: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """Run, or re-execute, the job of the definitions in an instance that retries each run once."""
    retries = {"run_retries": {"enabled": True, "max_retries": 1}}
    with dg.DagsterInstance.ephemeral(settings=retries) as instance:

        @contextlib.contextmanager
        def run(*behaviours: str, after: str | None = None, **more: str) -> Iterator[dg.JobExecutionResult]:
            work = {"queue": queue.name, "behaviours": list(behaviours), "seen": str(seen), **more}
            with dg.execute_job(
                dg.reconstructable(pipeline.launched),
                instance,
                run_config={"resources": {"work": {"config": work}}},
                reexecution_options=dg.ReexecutionOptions(parent_run_id=after) if after else None,
                # The daemon and the UI tag a retry with its root, by which Dagster counts; execute_job does not.
                tags={"dagster/root_run_id": after} if after else None,
            ) as result:
                yield result

        monkeypatch.setenv("TEST_RMQ_URL", redis_url)
        yield run


def test_a_failed_run_that_dagster_will_retry_keeps_its_lease_for_the_run_that_follows(
    execute: Execute, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish_many(["a", "b"])
    with execute("adopt_and_fail", "adopt") as failed:
        assert not failed.success
    (lease,) = queue.admin.leases()
    assert lease.owner == failed.run_id
    with execute("adopt_and_fail", "adopt", after=failed.run_id) as retried:
        assert retried.success
    first, second = notes(seen)
    assert first["payloads"] == second["payloads"]
    assert first["lease_id"] == second["lease_id"] == f"{failed.run_id}/worked"
    assert (first["owner"], second["owner"]) == (failed.run_id, retried.run_id)
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_the_last_run_of_a_group_nacks(execute: Execute, queue: LeasedQueue) -> None:
    queue.publish("a")
    with execute("fail") as first:
        pass
    with execute("fail", after=first.run_id) as last:
        assert not last.success
    (message,) = queue.admin.peek()
    assert message.history[-1].owner == last.run_id


def test_a_run_re_executed_after_its_ack_succeeds_at_once(execute: Execute, queue: LeasedQueue, seen: Path) -> None:
    queue.publish("a")
    with execute("adopt") as first:
        assert first.success
    queue.publish("b")
    with execute("fail", after=first.run_id) as again:
        assert again.success
    assert len(notes(seen)) == 1
    assert queue.stats().ready == 1


def test_a_re_executed_run_may_claim_the_next_messages_instead(
    execute: Execute, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish("a")
    with execute("adopt", on_settled="next") as first:
        assert first.success
    queue.publish("b")
    with execute("adopt", on_settled="next", after=first.run_id) as again:
        assert again.success
    assert [driver["lease_id"] for driver in notes(seen)] == [f"{first.run_id}/worked", f"{first.run_id}/worked#2"]
    assert queue.stats().ready == 0
