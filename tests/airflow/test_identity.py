"""Which task owns a lease: tries of one run, runs of one name, and names that are too long."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from rmq_airflow.identity import RunMark, TaskIdentity
from rmq_core.orchestrate import Relation

MONDAY, TUESDAY = 1_000, 2_000
NOW = TaskIdentity("dag", "run", "work", 3, 2, RunMark(TUESDAY, 1, 500))
UNMARKED = replace(NOW, mark=None)
OURS, FORMER, FOREIGN = Relation.OURS, Relation.FORMER, Relation.FOREIGN


def other(try_number: int = 1, run_after: int = TUESDAY, clear_number: int = 1, try_id: int = 400, **names: Any) -> str:
    return replace(NOW, try_number=try_number, mark=RunMark(run_after, clear_number, try_id), **names).owner


@pytest.mark.parametrize(
    ("owner", "relation"),
    [
        (NOW.owner, OURS),
        (other(), OURS),
        (other(clear_number=0), OURS),
        (other(run_after=MONDAY), FORMER),
        (other(run_after=TUESDAY + 1), FORMER),
        (other(clear_number=2), FORMER),
        (other(try_number=2), FORMER),
        (other(try_number=7), FORMER),
        (other(try_id=600), FOREIGN),
        (other(try_number=3, try_id=600), FOREIGN),
        (other(run_after=TUESDAY + 1, clear_number=0, try_id=600), FOREIGN),
        (other(map_index=4), FOREIGN),
        (other(run_id="another"), FOREIGN),
        (other(task_id="wait"), FOREIGN),
        (other(task_id="wait", run_after=MONDAY), FORMER),
        (other(task_id="wait", run_after=MONDAY, try_id=600), FOREIGN),
        ("airflow:dag/run/work/3/1", OURS),
        ("airflow:dag/run/work/3/2", OURS),
        ("airflow:dag/run/work/3/3", FOREIGN),
        ("airflow:dag/run/work/3/1@nonsense", OURS),
        ("airflow:dag/run/wait/-1/1", FOREIGN),
        ("host.1234", FOREIGN),
        ("", FOREIGN),
    ],
)
def test_an_owner_is_an_earlier_try_a_task_of_a_former_run_or_foreign(owner: str, relation: Relation) -> None:
    assert NOW.relation(owner) is relation
    assert NOW.follows(owner) is (relation is OURS)


@pytest.mark.parametrize(("owner", "relation"), [(other(run_after=MONDAY), OURS), (other(try_number=3), FOREIGN)])
def test_a_task_without_a_run_mark_treats_every_run_of_that_name_as_its_own(owner: str, relation: str) -> None:
    assert UNMARKED.relation(owner) is relation
    assert not UNMARKED.tells_runs_apart(owner)


@pytest.mark.parametrize("task", [NOW, UNMARKED, replace(NOW, run_id="a/b c@d", map_index=-1)])
def test_an_owner_string_is_parsed_into_its_task(task: TaskIdentity) -> None:
    assert TaskIdentity.read(task.owner) == task


def test_each_iteration_of_a_task_loop_has_a_lease_of_its_own() -> None:
    """In a loop (Airflow 3.4), dag, run, task, map index and try number repeat, and iterations may overlap."""
    passes = [replace(NOW, loop_index=index, mark=RunMark(MONDAY, 0, 100 + index)) for index in range(3)]
    assert len({one.lease_id for one in (NOW, *passes)}) == 4
    assert [TaskIdentity.read(one.owner) for one in passes] == passes
    for one in passes:
        assert one.headers["airflow-loop-index"] == str(one.loop_index)
        for former in (NOW, *passes):
            assert one.relation(former.owner) is (OURS if former is one else FOREIGN)
    retry = replace(passes[1], try_number=NOW.try_number + 1, mark=RunMark(MONDAY, 0, 200))
    assert retry.relation(passes[1].owner) is OURS


def test_the_loop_is_read_from_the_context_of_the_task() -> None:
    ti = SimpleNamespace(id=None, dag_id="dag", run_id="run", task_id="work", map_index=2, try_number=1)
    made = TaskIdentity.of({"ti": ti, "loop": SimpleNamespace(index=4)})  # type: ignore[typeddict-item,typeddict-unknown-key]
    assert (made.lease_id, made.loop_index) == ("dag/run/work/2~4", 4)


def test_owners_of_earlier_versions_without_a_run_mark_are_parsed() -> None:
    assert TaskIdentity.read("airflow:dag/run/work/3/2") == UNMARKED


@pytest.mark.parametrize("owner", ["", "host.1", "airflow:dag/run/work/3", "airflow:a/b/c/d/1", "rmq:dag/run/work/3/2"])
def test_a_foreign_owner_string_is_no_task(owner: str) -> None:
    assert TaskIdentity.read(owner) is None


def test_names_too_long_for_redis_queue_are_cut_and_stay_distinct() -> None:
    long = TaskIdentity("d" * 250, "r" * 250, "t" * 250, 12, 3, RunMark(1 << 52, 100, (1 << 64) - 1))
    twin = replace(long, task_id="t" * 249 + "u")
    assert len(f"{long.lease_id}#1000") <= 512
    assert len(replace(long, try_number=10_000).owner) <= 512
    assert long.lease_id != twin.lease_id
    assert long.relation(replace(long, try_number=2, mark=RunMark(1 << 52, 100, 5)).owner) is OURS
    assert long.relation(replace(long, try_number=2, mark=RunMark(1, 100, 5)).owner) is FORMER
    assert long.relation(twin.owner) is FOREIGN
    assert TaskIdentity.read(long.owner) is None


def context(ti_id: object, **run: Any) -> Any:
    return {"ti": SimpleNamespace(id=ti_id), "dag_run": SimpleNamespace(**run)}


def test_a_run_mark_is_made_of_the_run_data_of_airflow() -> None:
    made = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
    after = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    mark = RunMark.of(context(made, run_after=after, clear_number=2))
    assert mark == RunMark(1_767_323_045_678_901, 2, 0x01890A5DAC96774B)
    assert RunMark.read(str(mark)) == mark
    assert RunMark.of(context(made, run_after=after, clear_number=None)) == mark._replace(clear_number=0)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "place",
    [
        {"ti": SimpleNamespace()},
        context(uuid4(), run_after=datetime(2026, 1, 1, tzinfo=UTC)),
        context("no uuid", run_after=datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_without_a_run_or_a_time_ordered_id_there_is_no_run_mark(place: Any) -> None:
    assert RunMark.of(place) is None
