"""Task loops: tables as Airflow 3.4 has them, in which iterations share dag, run, task and map index.

No Airflow with these tables can be installed here; the columns are those of its source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from airflow.utils.sqlalchemy import UtcDateTime
from sqlalchemy import JSON, Uuid, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from rmq_airflow.identity import RunMark, TaskIdentity, microseconds

AT = datetime(2026, 11, 26, tzinfo=UTC)
NO_REGION = UUID(int=0)
MARK = RunMark(microseconds(AT), 0, 0)
LOOP, MAPPED = UUID(int=1), UUID(int=2)


class Base(DeclarativeBase):
    """The tables of a test."""


class Named:
    """What all tables about task instances have."""

    row: Mapped[int] = mapped_column(primary_key=True)
    dag_id: Mapped[str]
    run_id: Mapped[str]
    task_id: Mapped[str]
    map_index: Mapped[int] = mapped_column(default=-1)


class TaskInstance(Named, Base):
    __tablename__ = "task_instance"
    id: Mapped[UUID] = mapped_column(Uuid())
    state: Mapped[str | None]
    try_number: Mapped[int] = mapped_column(default=1)
    region_id: Mapped[UUID] = mapped_column(Uuid(), default=NO_REGION)
    region_index: Mapped[int] = mapped_column(default=-1)
    working_set: Mapped[bool] = mapped_column(default=True)


class DagRun(Base):
    __tablename__ = "dag_run"
    id: Mapped[int] = mapped_column(primary_key=True)
    dag_id: Mapped[str]
    run_id: Mapped[str]
    state: Mapped[str]
    run_after: Mapped[datetime] = mapped_column(UtcDateTime)


class DynamicRegion(Base):
    __tablename__ = "dynamic_region"
    id: Mapped[UUID] = mapped_column(Uuid(), primary_key=True)
    node_id: Mapped[str]
    parent_region_index: Mapped[int | None]


class XCom(Named, Base):
    __tablename__ = "xcom"
    key: Mapped[str]
    value: Mapped[Any] = mapped_column(JSON)


class Log(Named, Base):
    __tablename__ = "log"
    event: Mapped[str]
    try_number: Mapped[int]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    from rmq_airflow.plugin import holders

    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as made:

        @contextmanager
        def create_session(**_: Any) -> Iterator[Session]:
            yield made

        tables = {"TaskInstance": TaskInstance, "DagRun": DagRun, "XComModel": XCom, "Log": Log}
        for name, value in {**tables, "create_session": create_session, "IN_REGIONS": True}.items():
            monkeypatch.setattr(holders, name, value)
        module = SimpleNamespace(DynamicRegion=DynamicRegion)
        monkeypatch.setitem(sys.modules, "airflow.models.dynamic_region", module)  # type: ignore[arg-type]
        made.add(DagRun(dag_id="etl", run_id="run", state="running", run_after=AT))
        made.add(DynamicRegion(id=LOOP, node_id="batches", parent_region_index=None))
        made.add(DynamicRegion(id=MAPPED, node_id="load", parent_region_index=1))
        yield made


def put(session: Session, made: int, state: str | None, region: UUID = LOOP, index: int = -1, **more: Any) -> None:
    names = {"dag_id": "etl", "run_id": "run", "task_id": "load", "map_index": more.pop("map_index", -1)}
    session.add(
        TaskInstance(**names, id=UUID(int=made << 64), state=state, region_id=region, region_index=index, **more)
    )
    session.flush()


def held_in(iteration: int | None, made: int, map_index: int = -1) -> str:
    return TaskIdentity("etl", "run", "load", map_index, 1, MARK._replace(try_id=made), iteration).owner


def reason_of(owner: str) -> str | None:
    from rmq_airflow.plugin.holders import standings

    return standings([owner])[owner].reason


def test_a_finished_iteration_is_not_taken_for_the_one_that_runs(session: Session) -> None:
    put(session, 10, "success", index=0)
    put(session, 11, "running", index=1)
    put(session, 12, "failed", index=2)
    assert reason_of(held_in(1, 11)) is None
    assert "failed" in (reason_of(held_in(2, 12)) or "")


def test_a_retry_is_found_by_its_iteration_although_its_uuid_is_another(session: Session) -> None:
    put(session, 10, "failed", index=0)
    put(session, 21, "up_for_retry", index=1)
    assert reason_of(held_in(1, 11)) is None
    assert reason_of(held_in(0, 9)) is not None


def test_a_mapped_task_of_an_iteration_is_found_by_that_of_its_region(session: Session) -> None:
    put(session, 10, "failed", MAPPED, index=3, map_index=3)
    assert reason_of(held_in(1, 9, map_index=3)) is not None


def test_a_task_instance_that_a_clear_replaced_does_not_count(session: Session) -> None:
    put(session, 10, "failed", index=1, working_set=False)
    put(session, 20, "running", index=1)
    assert reason_of(held_in(1, 10)) is None


def test_nothing_is_concluded_where_iterations_cannot_be_told_apart(session: Session) -> None:
    put(session, 10, "failed", index=0)
    put(session, 11, "success", index=1)
    assert reason_of(replace(TaskIdentity("etl", "run", "load", -1, 1), mark=None).owner) is None


def test_a_task_outside_of_loops_is_found_as_before(session: Session) -> None:
    put(session, 10, "failed", NO_REGION)
    assert reason_of(held_in(None, 9)) is not None


def test_a_hand_over_is_pending_while_its_xcom_may_be_in_another_table(session: Session) -> None:
    put(session, 10, "success", NO_REGION)
    assert reason_of(held_in(None, 10)) is None
