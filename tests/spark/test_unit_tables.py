"""Rows are appended to a table once under the name of their batch, whatever else happens to the table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rmq_spark.tables import BatchName, TableConflict, TableNotFound
from rmq_spark.tables import log as logs
from rmq_spark.tables.appending import log_of
from rmq_spark.tables.iceberg import REMEMBER_FOR
from rmq_spark.tables.log import CommitConflict, append_under
from tests.spark.table_kits import KITS, IcebergKit, Kit, log, rows_of

CLAIM = [BatchName("run@1", 0)]


@pytest.fixture(params=KITS)
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Kit:
    """A table of each kind, with one row that is nobody's batch."""
    made = KITS[request.param](tmp_path)
    made.plain_append([0])
    return made


def ignored(doubt: object) -> None:
    """Take no note of whether the rows may be in the table."""


def append(kit: Kit, names: Sequence[BatchName], numbers: Sequence[int]) -> bool:
    return append_under(names, log(kit), lambda: rows_of(numbers), ignored)


def not_computed() -> pa.Table:
    raise AssertionError("the rows are computed again")


def test_a_batch_that_was_appended_is_neither_computed_nor_appended_again(kit: Kit) -> None:
    assert append(kit, CLAIM, [1, 2])
    assert not append_under(CLAIM, log(kit), not_computed, ignored)
    assert append(kit, [BatchName("run@2", 0)], [3])
    assert kit.numbers() == [0, 1, 2, 3]


def test_the_batches_of_a_stream_are_remembered_up_to_the_latest(kit: Kit) -> None:
    assert [append(kit, [BatchName("c/s", number)], [number]) for number in (1, 2, 4)] == [True] * 3
    assert [append(kit, [BatchName("c/s", number)], [number]) for number in (1, 3, 4)] == [False] * 3
    assert append(kit, [BatchName("c/s", 5), BatchName("c/other", 1)], [5])
    assert not append(kit, [BatchName("c/other", 1)], [6])
    assert kit.numbers() == [0, 1, 2, 4, 5]


def test_of_two_writers_that_looked_before_either_wrote_the_second_appends_nothing(kit: Kit) -> None:
    first, second = log(kit), log(kit)
    assert not first.remembers(CLAIM)
    assert not second.remembers(CLAIM)
    first.commit(CLAIM, rows_of([1]))
    with pytest.raises(CommitConflict):
        second.commit(CLAIM, rows_of([1]))
    assert second.remembers(CLAIM)
    assert kit.numbers() == [0, 1]


def test_of_many_writers_at_once_one_appends(kit: Kit) -> None:
    started = threading.Barrier(4)

    def write() -> bool:
        def computed() -> pa.Table:
            started.wait()
            return rows_of([1])

        return append_under(CLAIM, log(kit), computed, ignored)

    with ThreadPoolExecutor(4) as pool:
        wrote = [each.result() for each in [pool.submit(write) for _ in range(4)]]
    assert sorted(wrote) == [False, False, False, True]
    assert kit.numbers() == [0, 1]


class Interrupted:
    """A log whose table others change before the first commits."""

    name = "numbers"

    def __init__(self, kit: Kit, *changes: Callable[[], object]) -> None:
        self.real, self.changes = log(kit), iter(changes)

    def remembers(self, names: Sequence[BatchName]) -> bool:
        return self.real.remembers(names)

    def commit(self, names: Sequence[BatchName], rows: pa.Table) -> None:
        next(self.changes, lambda: None)()
        self.real.commit(names, rows)


def test_plain_appends_of_others_between_look_and_commit_lose_nothing(kit: Kit) -> None:
    others = [partial(kit.plain_append, [number]) for number in (101, 100)]
    assert append_under(CLAIM, Interrupted(kit, *others), lambda: rows_of([1]), ignored)
    numbers = kit.numbers()
    assert numbers.count(1) == 1
    assert 101 in numbers


@pytest.mark.parametrize("change", ["compact", "maintain", "undo"])
def test_maintenance_between_look_and_commit_lets_the_batch_in_once(kit: Kit, change: str) -> None:
    kit.plain_append([2])
    assert append_under(CLAIM, Interrupted(kit, getattr(kit, change)), lambda: rows_of([1]), ignored)
    assert kit.numbers() == ([0, 1] if change == "undo" else [0, 1, 2])
    assert not append_under(CLAIM, log(kit), not_computed, ignored)


def test_compaction_vacuum_and_expired_snapshots_keep_the_memory(kit: Kit) -> None:
    assert append(kit, CLAIM, [1])
    kit.plain_append([2])
    kit.maintain()
    assert not append_under(CLAIM, log(kit), not_computed, ignored)
    assert kit.numbers() == [0, 1, 2]


def test_a_restored_table_has_lost_the_rows_and_kept_the_memory(kit: Kit) -> None:
    assert append(kit, CLAIM, [1])
    kit.undo()
    assert not append_under(CLAIM, log(kit), not_computed, ignored)
    assert kit.numbers() == [0]


def test_iceberg_forgets_claims_that_are_older_than_the_window_and_nothing_else(tmp_path: Path) -> None:
    kit = IcebergKit(tmp_path)
    for number in range(5):
        append(kit, [BatchName(f"claim {number}", 0)], [number])
    assert kit.names() == 5
    with kit.table.transaction() as change:
        change.set_properties({REMEMBER_FOR: "0", "owner": "me"})
    append(kit, [BatchName("claim 5", 0)], [5])
    assert kit.names() == 1
    assert kit.table.properties["owner"] == "me"
    assert "commit.retry.num-retries" not in kit.table.properties, "other writers keep their retries"


class Scripted:
    """A log whose commits end as scripted."""

    name = "numbers"

    def __init__(self, *ends: BaseException | None, landed: bool = False, readable: bool = True) -> None:
        self.ends: Iterator[BaseException | None] = iter(ends)
        self.landed, self.readable, self.committed = landed, readable, False

    def remembers(self, names: Sequence[BatchName]) -> bool:
        if self.committed and not self.readable:
            raise TimeoutError("the log")
        return self.committed and self.landed

    def commit(self, names: Sequence[BatchName], rows: pa.Table) -> None:
        end = next(self.ends, None)
        self.committed = not isinstance(end, CommitConflict)
        if end is not None:
            raise end


@pytest.mark.parametrize(
    ("scripted", "outcome", "doubts"),
    [
        (Scripted(), True, [True]),
        (Scripted(CommitConflict(), CommitConflict()), True, [True, False, True, False, True]),
        (Scripted(OSError("reply"), landed=True), True, [True]),
        (Scripted(OSError("disk")), OSError, [True, False]),
        (Scripted(OSError("reply"), readable=False), TimeoutError, [True]),
    ],
    ids=["committed", "conflicts", "reply lost", "failed", "log unreadable"],
)
def test_a_batch_is_in_doubt_from_its_commit_until_the_log_says_it_is_not_there(
    monkeypatch: pytest.MonkeyPatch, scripted: Scripted, outcome: Any, doubts: list[bool]
) -> None:
    monkeypatch.setattr(logs, "PAUSE_S", 0)
    seen: list[bool] = []
    if outcome is True:
        assert append_under(CLAIM, scripted, lambda: rows_of([1]), seen.append)
    else:
        with pytest.raises(outcome):
            append_under(CLAIM, scripted, lambda: rows_of([1]), seen.append)
    assert seen == doubts


def test_a_writer_that_always_comes_too_late_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PAUSE_S", 0)
    scripted = Scripted(*[CommitConflict() for _ in range(logs.TRIES)])
    with pytest.raises(TableConflict, match=r"table numbers: .* 20 times; nothing was appended"):
        append_under(CLAIM, scripted, lambda: rows_of([1]), ignored)


def test_a_table_that_does_not_exist_is_reported_with_how_to_create_it(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match=r"no Delta table at .*DeltaTable\.create"):
        log_of(tmp_path / "none")
    kit = IcebergKit(tmp_path)
    dropped = log(kit)
    kit.catalog.drop_table("tests.numbers")
    with pytest.raises(TableNotFound, match=r"no Iceberg table tests\.numbers any more.*create_table"):
        dropped.remembers(CLAIM)
