"""Tables with transaction logs, for tests of `rmq_spark.tables`: a Delta table and an Iceberg table in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from rmq_spark.tables.appending import log_of
from rmq_spark.tables.iceberg import PREFIX
from rmq_spark.tables.log import TableLog

SCHEMA = pa.schema([("n", pa.int64())])
NAME = "tests.numbers"


class Kit(Protocol):
    """A table, of numbers by default."""

    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA) -> None:
        """Create the table, unless the folder has it."""

    @property
    def table(self) -> Any:
        """What `append_once` takes: a new handle."""

    def plain_append(self, numbers: Iterable[int]) -> None:
        """Append as any other program would."""

    def rows(self) -> pa.Table:
        """Return what the table holds."""

    def numbers(self) -> list[int]:
        """Return the numbers it holds, in order."""

    def undo(self) -> None:
        """Return to the state before the last commit, as RESTORE and a rollback do."""

    def compact(self) -> None:
        """Write all rows into one file."""

    def maintain(self) -> None:
        """Compact, expire and vacuum, as far as the package does."""

    def names(self) -> int:
        """Return how many batches of claims the log remembers under `claim 0` to `claim 99`."""


def rows_of(numbers: Iterable[int]) -> pa.Table:
    return pa.table({"n": list(numbers)}, SCHEMA)


class DeltaKit:
    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA) -> None:
        self.path = folder / "delta"
        DeltaTable.create(self.path, schema, mode="ignore")

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def plain_append(self, numbers: Iterable[int]) -> None:
        write_deltalake(self.path, rows_of(numbers), mode="append")

    def rows(self) -> pa.Table:
        return self.table.to_pyarrow_table()

    def numbers(self) -> list[int]:
        return sorted(self.rows()["n"].to_pylist())

    def undo(self) -> None:
        self.table.restore(self.table.version() - 1)

    def compact(self) -> None:
        self.table.optimize.compact()

    def maintain(self) -> None:
        self.compact()
        table = self.table
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        table.create_checkpoint()
        (self.path / "_delta_log" / f"{0:020}.json").unlink()

    def names(self) -> int:
        return sum(self.table.transaction_version(f"claim {number}") is not None for number in range(100))


class IcebergKit:
    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA) -> None:
        folder.mkdir(exist_ok=True)
        place = {"uri": f"sqlite:///{folder}/catalog.sqlite", "warehouse": folder.as_uri()}
        self.catalog = SqlCatalog("tests", **place)
        self.catalog.create_namespace_if_not_exists("tests")
        self.catalog.create_table_if_not_exists(NAME, schema)

    @property
    def table(self) -> Any:
        return self.catalog.load_table(NAME)

    def plain_append(self, numbers: Iterable[int]) -> None:
        self.table.append(rows_of(numbers))

    def rows(self) -> pa.Table:
        return self.table.scan().to_arrow()

    def numbers(self) -> list[int]:
        return sorted(self.rows()["n"].to_pylist())

    def undo(self) -> None:
        table = self.table
        table.manage_snapshots().rollback_to_snapshot(table.current_snapshot().parent_snapshot_id).commit()

    def compact(self) -> None:
        self.table.overwrite(self.rows())

    def maintain(self) -> None:
        self.compact()
        table = self.table
        current = table.current_snapshot().snapshot_id
        old = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != current]
        table.maintenance.expire_snapshots().by_ids(old).commit()
        assert len(self.table.snapshots()) == 1

    def names(self) -> int:
        return sum(key.startswith(f"{PREFIX}claim ") for key in self.table.properties)


KITS: dict[str, Callable[..., Kit]] = {"delta": DeltaKit, "iceberg": IcebergKit}


def log(kit: Kit) -> TableLog:
    """Return the log of the table, seen by one more writer."""
    return log_of(kit.table)
