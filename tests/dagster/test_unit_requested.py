"""Which of the requested runs may still claim."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from rmq_dagster.runs.requested import coming


def record(status: dg.DagsterRunStatus, changed_s_ago: float) -> Any:
    changed = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=changed_s_ago)
    return SimpleNamespace(
        dagster_run=SimpleNamespace(status=status),
        create_timestamp=changed - dt.timedelta(days=1),
        update_timestamp=changed.replace(tzinfo=None),
    )


@pytest.mark.parametrize(
    ("status", "changed_s_ago", "counted"),
    [
        (dg.DagsterRunStatus.QUEUED, 5_000, 1),
        (dg.DagsterRunStatus.STARTING, 5, 1),
        (dg.DagsterRunStatus.STARTING, 5_000, 0),
        (dg.DagsterRunStatus.STARTED, 5, 1),
        (dg.DagsterRunStatus.STARTED, 5_000, 0),
    ],
)
def test_a_run_may_still_claim_while_it_is_queued_and_for_some_time_after_each_status_change(
    status: dg.DagsterRunStatus, changed_s_ago: float, counted: int
) -> None:
    assert coming([record(status, changed_s_ago)], seconds=600) == counted
