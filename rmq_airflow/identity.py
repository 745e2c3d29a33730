"""The identity of a task towards the queue: a lease id and an owner.

The lease id names the work. It has no try number, so a retry or a cleared task takes over its own messages. In a task
loop (Airflow 3.4), where all other names repeat in each iteration, it has the number of the iteration.
The owner names the try, so a late call from try 1 cannot settle messages that try 2 holds. The owner also names the
run, because a deleted run can be created again under its name: messages that the former run held or settled do not
belong to the new one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from rmq_core.orchestrate import Relation

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME_ORDERED = 7  # the version of UUIDs that begin with a timestamp
PREFIX = "airflow:"
LOOP = "~"
LONGEST_LEASE_ID = 500  # RMQ accepts 512 characters; a suffix follows: `#2`, `#3`, …, or an owner's try and run
LONGEST_IN_OWNER = 440
DIGEST = 32


class RunMark(NamedTuple):
    """A mark that tells apart several runs of one name: a user can delete a run and create it again under its id.

    All fields come from Airflow. `run_after` is the time for which the run was created, in microseconds, and
    `clear_number` is how often it was cleared. `try_id` is the first 64 bits of the task instance's UUID of version 7,
    which begins with its creation time and differs for each try. Together they distinguish a run that was created again
    from a run or task that was only cleared or retried. There is one exception: if a scheduled run was created again
    and its task first claims in a try with a higher number than the owner's, that try counts as a retry.
    """

    run_after: int
    clear_number: int
    try_id: int

    def __str__(self) -> str:
        return f"{self.run_after:x}.{self.clear_number}.{self.try_id:x}"

    @classmethod
    def read(cls, text: str) -> RunMark | None:
        """Parse the output of `str`; return None for any other text."""
        try:
            run_after, clear_number, try_id = text.split(".")
            return cls(int(run_after, 16), int(clear_number), int(try_id, 16))
        except ValueError:
            return None

    @classmethod
    def of(cls, context: Context) -> RunMark | None:
        """Return the mark of the try that runs under `context`; None if the context lacks the data."""
        run = context.get("dag_run")
        run_after = getattr(run, "run_after", None)
        made = getattr(context["ti"], "id", None)
        if run_after is None or not isinstance(made, UUID) or made.version != TIME_ORDERED:
            return None
        return cls(microseconds(run_after), getattr(run, "clear_number", None) or 0, made.int >> 64)

    def replaces(self, other: RunMark) -> bool:
        """Return whether this mark certainly belongs to a later run than `other`.

        Return False for two marks of one run, and for marks that differ too little to decide.
        """
        another_run = self.run_after != other.run_after or self.clear_number < other.clear_number
        return another_run and self.try_id > other.try_id


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """One try of one task instance; `mark` identifies the run, if known; `loop_index` the iteration of a task loop."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    mark: RunMark | None = None
    loop_index: int | None = None

    @classmethod
    def of(cls, context: Context) -> TaskIdentity:
        """Return the identity of the task that runs under `context`."""
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else ti.map_index
        loop_index = getattr(context.get("loop"), "index", None)
        return cls(ti.dag_id, ti.run_id, ti.task_id, map_index, ti.try_number, RunMark.of(context), loop_index)

    @classmethod
    def read(cls, owner: str) -> TaskIdentity | None:
        """Return the try that `owner` names; None for an owner of another kind, and for one that was shortened.

        Only the run id can contain slashes.
        """
        name, number, mark = _parts(owner)
        dag_id, *rest = name.removeprefix(PREFIX).split("/")
        if number is None or not owner.startswith(PREFIX) or len(rest) < 3:  # a run, a task, its place
            return None
        *run_id, task_id, place = rest
        map_index, _, loop_index = place.partition(LOOP)
        try:
            loop = int(loop_index) if loop_index else None
            return cls(dag_id, "/".join(run_id), task_id, int(map_index), number, mark, loop)
        except ValueError:
            return None

    @property
    def lease_id(self) -> str:
        """Return `dag/run/task/map_index`, with `~loop_index` in a task loop; the same for every try."""
        return _cut(self._name, LONGEST_LEASE_ID)

    @property
    def owner(self) -> str:
        """Return `airflow:dag/run/task/map_index/try@mark`, different for every try."""
        mark = "" if self.mark is None else f"@{self.mark}"
        return f"{self._owned}/{self.try_number}{mark}"

    def follows(self, owner: str) -> bool:
        """Return whether `owner` names this try or an earlier try of this task, so that it may take over the lease."""
        return self.relation(owner) is Relation.OURS

    def relation(self, owner: str) -> Relation:
        """Return the relation of `owner` to this task.

        If a mark is missing, as in owners that older versions wrote, a former run counts as this run.
        """
        name, number, mark = _parts(owner)
        if number is None:
            return Relation.FOREIGN
        if name == self._owned:
            return self._to_try(number, mark)
        other = self.read(owner)
        same_run = other is not None and (other.dag_id, other.run_id) == (self.dag_id, self.run_id)
        return Relation.FORMER if same_run and self._replaces(mark) else Relation.FOREIGN

    def tells_runs_apart(self, owner: str) -> bool:
        """Return whether `owner` and this task both carry the mark of their run."""
        return self.mark is not None and _parts(owner)[2] is not None

    def _to_try(self, number: int, mark: RunMark | None) -> Relation:
        if mark is None or self.mark is None:
            return Relation.OURS if number <= self.try_number else Relation.FOREIGN
        if mark.try_id == self.mark.try_id:
            return Relation.OURS
        if mark.try_id > self.mark.try_id:
            return Relation.FOREIGN  # the owner is newer: this task is a stale copy that should be dead
        return Relation.FORMER if self._replaces(mark) or number >= self.try_number else Relation.OURS

    def _replaces(self, mark: RunMark | None) -> bool:
        return mark is not None and self.mark is not None and self.mark.replaces(mark)

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that identify the publishing task in a message."""
        loop = {} if self.loop_index is None else {"airflow-loop-index": str(self.loop_index)}
        return {
            "airflow-dag-id": self.dag_id,
            "airflow-run-id": self.run_id,
            "airflow-task-id": self.task_id,
            "airflow-map-index": str(self.map_index),
            **loop,
        }

    @property
    def _name(self) -> str:
        loop = "" if self.loop_index is None else f"{LOOP}{self.loop_index}"
        return f"{self.dag_id}/{self.run_id}/{self.task_id}/{self.map_index}{loop}"

    @property
    def _owned(self) -> str:
        return PREFIX + _cut(self._name, LONGEST_IN_OWNER)


def _parts(owner: str) -> tuple[str, int | None, RunMark | None]:
    """Split an owner into task, try number and run mark. The number is None if no task wrote the owner."""
    name, _, last = owner.rpartition("/")
    number, _, mark = last.partition("@")
    return name, int(number) if number.isdecimal() else None, RunMark.read(mark)


def _cut(name: str, longest: int) -> str:
    """Shorten a name to at most `longest` characters; a digest at its end keeps it unique.

    Airflow's three ids may have 250 characters each.
    """
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST]
    return f"{name[: longest - DIGEST - 1]}~{digest}"


def once_name(context: Context) -> str:
    """Return the name of a task's outbox: one for all automatic retries, another after a clear or in a new run.

    A user who clears a task wants its messages to be published again, and so does one who deletes a run and creates it
    again under the same id. Airflow raises `max_tries` when a task is cleared; a new run has another `start_date`.
    """
    run, task = context.get("dag_run"), TaskIdentity.of(context)
    began = getattr(run, "start_date", None)
    since = f"{microseconds(began):x}" if began else ""
    return f"{task.lease_id}@{since}.{context['ti'].max_tries}"


def microseconds(moment: datetime) -> int:
    """Return `moment` as microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)
