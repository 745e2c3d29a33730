"""Who a task is, in the words of the queue.

The lease id names the work (no try number: a retry or a clear takes over its own messages), the owner names the try
(so that something late from try 1 cannot settle what try 2 holds) and the run, for a run that was deleted can be
created again under its name: what the former run held or settled is not the new one's.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from rmq_core.work import Relation

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME_ORDERED = 7  # the version of UUIDs that begin with a time
PREFIX = "airflow:"
LONGEST_LEASE_ID = 500  # Redis Queue takes 512 characters; `#2`, `#3`, … and an owner's try and run come after it
LONGEST_IN_OWNER = 440
DIGEST = 32


class RunMark(NamedTuple):
    """Which of several runs of one name a try belongs to: people delete a run and create it again under its id.

    What is compared comes from Airflow alone, stays the same when a run or a task is cleared or retried, and differs
    once a run was created anew: the time for which the run was made, in microseconds, how often it was cleared, and
    `try_id`: the first 64 bits of the task instance's UUID of version 7, which begins with the time of its making and
    is another one for each try. A scheduled run that was created again, and whose task claims in a later try for the
    first time, cannot be told from a retry.
    """

    run_after: int
    clear_number: int
    try_id: int

    def __str__(self) -> str:
        return f"{self.run_after:x}.{self.clear_number}.{self.try_id:x}"

    @classmethod
    def read(cls, text: str) -> RunMark | None:
        """What `str` wrote; None for anything else."""
        try:
            run_after, clear_number, try_id = text.split(".")
            return cls(int(run_after, 16), int(clear_number), int(try_id, 16))
        except ValueError:
            return None

    @classmethod
    def of(cls, context: Context) -> RunMark | None:
        """The mark of the try that runs under `context`; None where Airflow does not say enough."""
        run = context.get("dag_run")
        run_after = getattr(run, "run_after", None)
        made = getattr(context["ti"], "id", None)
        if run_after is None or not isinstance(made, UUID) or made.version != TIME_ORDERED:
            return None
        return cls(microseconds(run_after), getattr(run, "clear_number", None) or 0, made.int >> 64)

    def replaces(self, other: RunMark) -> bool:
        """Whether this is surely of a later run than `other`; two of one run, or too much alike, are not."""
        another_run = self.run_after != other.run_after or self.clear_number < other.clear_number
        return another_run and self.try_id > other.try_id


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """One try of one task instance; `mark` says of which run, where that is known."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    mark: RunMark | None = None

    @classmethod
    def of(cls, context: Context) -> TaskIdentity:
        """The identity of the task that runs under `context`."""
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else ti.map_index
        return cls(ti.dag_id, ti.run_id, ti.task_id, map_index, ti.try_number, RunMark.of(context))

    @classmethod
    def read(cls, owner: str) -> TaskIdentity | None:
        """The try that an owner names; None for an owner of another kind, and for names that were too long to keep.

        Of all parts only a run id has slashes.
        """
        name, number, mark = _parts(owner)
        dag_id, *rest = name.removeprefix(PREFIX).split("/")
        if number is None or not owner.startswith(PREFIX) or len(rest) < 3:  # a run, a task, a map index
            return None
        *run_id, task_id, map_index = rest
        try:
            return cls(dag_id, "/".join(run_id), task_id, int(map_index), number, mark)
        except ValueError:
            return None

    @property
    def lease_id(self) -> str:
        """The same for every try: `dag/run/task/map_index`."""
        return _cut(self._name, LONGEST_LEASE_ID)

    @property
    def owner(self) -> str:
        """Different for every try: `airflow:dag/run/task/map_index/try@mark`."""
        mark = "" if self.mark is None else f"@{self.mark}"
        return f"{self._owned}/{self.try_number}{mark}"

    def follows(self, owner: str) -> bool:
        """Whether `owner` names this task in this try or an earlier one: whose lease it may take over."""
        return self.relation(owner) is Relation.OURS

    def relation(self, owner: str) -> Relation:
        """Who `owner` is to this task. Without marks, as before there were any, a former run is taken for this one."""
        name, number, mark = _parts(owner)
        if number is None:
            return Relation.FOREIGN
        if name == self._owned:
            return self._to_try(number, mark)
        other = self.read(owner)
        same_run = other is not None and (other.dag_id, other.run_id) == (self.dag_id, self.run_id)
        return Relation.FORMER if same_run and self._replaces(mark) else Relation.FOREIGN

    def tells_runs_apart(self, owner: str) -> bool:
        """Whether this owner and this task both say which run they belong to."""
        return self.mark is not None and _parts(owner)[2] is not None

    def _to_try(self, number: int, mark: RunMark | None) -> Relation:
        if mark is None or self.mark is None:
            return Relation.OURS if number <= self.try_number else Relation.FOREIGN
        if mark.try_id == self.mark.try_id:
            return Relation.OURS
        if mark.try_id > self.mark.try_id:
            return Relation.FOREIGN  # it was made later: this is a copy of a task that should be dead
        return Relation.FORMER if self._replaces(mark) or number >= self.try_number else Relation.OURS

    def _replaces(self, mark: RunMark | None) -> bool:
        return mark is not None and self.mark is not None and self.mark.replaces(mark)

    @property
    def headers(self) -> dict[str, str]:
        """What a message says about the task that published it."""
        return {
            "airflow-dag-id": self.dag_id,
            "airflow-run-id": self.run_id,
            "airflow-task-id": self.task_id,
            "airflow-map-index": str(self.map_index),
        }

    @property
    def _name(self) -> str:
        return f"{self.dag_id}/{self.run_id}/{self.task_id}/{self.map_index}"

    @property
    def _owned(self) -> str:
        return PREFIX + _cut(self._name, LONGEST_IN_OWNER)


def _parts(owner: str) -> tuple[str, int | None, RunMark | None]:
    """The task, the number of its try and the mark of its run; without a number it is no task's."""
    name, _, last = owner.rpartition("/")
    number, _, mark = last.partition("@")
    return name, int(number) if number.isdecimal() else None, RunMark.read(mark)


def _cut(name: str, longest: int) -> str:
    """A name of at most so many characters, told from others by its end: Airflow's three ids may have 250 each."""
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST]
    return f"{name[: longest - DIGEST - 1]}~{digest}"


def microseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)
