"""What a killed task can find out from Airflow about the cause."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_airflow import killed
from rmq_airflow.killed import Kill, why_killed

OWNER = "airflow:dag/run/work/-1/1"


def asked(states: Any, map_index: int = -1) -> Any:
    """A task instance that gets this answer and remembers its requests."""
    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="work", map_index=map_index, questions=[])

    def get_task_states(dag_id: str, **question: Any) -> Any:
        ti.questions.append((dag_id, question))
        if isinstance(states, Exception):
            raise states
        return states

    ti.get_task_states = get_task_states
    return ti


@pytest.mark.parametrize(
    ("state", "why", "is_failure"),
    [
        ("running", "shut down", False),
        ("restarting", "cleared", False),
        ("success", "success", False),
        ("failed", "failed", False),
        ("skipped", "skipped", False),
        ("removed", "removed", False),
        (None, "None", False),
        ("up_for_retry", "no heartbeat", True),
    ],
)
def test_only_a_lost_heartbeat_is_a_failure(state: str | None, why: str, is_failure: Any) -> None:
    kill = why_killed(asked({"run": {"work": state}}), OWNER)
    assert kill.is_failure is is_failure
    assert why in kill.why


@pytest.mark.parametrize("states", [{}, {"run": {}}])
def test_a_task_that_airflow_no_longer_has_was_deleted(states: Any) -> None:
    assert why_killed(asked(states), OWNER) == Kill("its run was deleted", is_failure=False)


def test_a_mapped_task_requests_only_its_own_state() -> None:
    ti = asked({"run": {"work_7": "restarting", "work_8": "up_for_retry"}}, map_index=7)
    assert not why_killed(ti, OWNER).is_failure
    assert ti.questions == [("dag", {"map_index": 7, "task_ids": ["work"], "run_ids": ["run"]})]


def test_in_a_task_loop_no_answer_is_taken_for_that_of_this_iteration() -> None:
    ti = asked({"run": {"work": "success"}})
    assert why_killed(ti, "airflow:dag/run/work/-1~3/1").is_failure
    assert ti.questions == []


@pytest.mark.parametrize("ti", [asked(RuntimeError("the API server is away")), SimpleNamespace(map_index=-1), None])
def test_an_unknown_cause_counts_as_a_failure(ti: Any) -> None:
    assert why_killed(ti, OWNER).is_failure


def test_a_missing_answer_of_airflow_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "ASK_S", 0.05)
    answer = threading.Event()
    ti = asked({})
    ti.get_task_states = lambda *_, **__: answer.wait()
    assert why_killed(ti, OWNER).is_failure
    answer.set()
