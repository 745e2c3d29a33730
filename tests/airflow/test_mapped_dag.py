"""Dynamic task mapping: identities do not collide, and payloads given by XCom are published."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.runs import load


@pytest.mark.slow
@pytest.mark.usefixtures("connection", "spark_submit", "airflow_database")
def test_each_mapped_task_publishes_its_own_list_and_works_on_its_own_lease(
    queue: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQ_TESTS_MARKER", str(tmp_path / "marker"))
    run = load("mapped").test()
    assert {str(ti.state) for ti in run.get_task_instances()} == {"success"}
    worked = [json.loads((tmp_path / f"marker-{number}").read_text()) for number in range(3)]
    # dag.test() runs mapped tasks in no particular order, so that any of them may have claimed any two messages.
    assert sorted(itertools.chain.from_iterable(worked)) == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert [len(batch) for batch in worked] == [2, 2, 2]
    for number in range(3):
        assert queue.settled(f"mapped/{run.run_id}/work/{number}").acked == 2
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
