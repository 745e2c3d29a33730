"""Which of several runs of one name a try belongs to: people delete a run and create it again under its id.

Law: what is compared comes from Airflow alone, stays the same when a run or a task is cleared or retried, and differs
once a run was created anew: the time for which the run was made, how often it was cleared, and the id of the task
instance, a UUID of version 7 that begins with the time of its making and is another one for each try. A scheduled run
that was created again, and whose task claims in a later try for the first time, cannot be told from a retry.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME_ORDERED = 7  # the version of UUIDs that begin with a time


class RunMark(NamedTuple):
    """A try's run. `run_after` in microseconds; `try_id`: the first 64 bits of the try's UUID, in the order of time."""

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


def microseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)
