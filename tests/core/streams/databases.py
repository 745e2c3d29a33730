"""Real databases for `run`: a table of effects in SQLite and in PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2


class Ledger:
    """The table in which handlers record effects: one row for each effect of a message."""

    def __init__(self, module: Any, connect: Callable[[], Any]) -> None:
        self.paramstyle: str = module.paramstyle
        self.connect = connect
        self._mark = "?" if self.paramstyle == "qmark" else "%s"

    def create(self) -> None:
        """Start again with an empty table."""
        with closing(self.connect()) as connection:
            for table in ("effects", "rmq_processed"):
                connection.cursor().execute(f"DROP TABLE IF EXISTS {table}")
            connection.cursor().execute("CREATE TABLE effects (n INTEGER NOT NULL)")
            connection.commit()

    def write(self, connection: Any, number: int) -> None:
        connection.cursor().execute(f"INSERT INTO effects VALUES ({self._mark})", (number,))

    def effects(self) -> list[int]:
        """Return what was committed, in order of its numbers."""
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT n FROM effects ORDER BY n")
            return [row[0] for row in cursor.fetchall()]


def sqlite_ledger(path: str) -> Ledger:
    return Ledger(sqlite3, lambda: sqlite3.connect(path, timeout=60, check_same_thread=False))


def postgres_ledger(dsn: str) -> Ledger:
    return Ledger(psycopg2, lambda: psycopg2.connect(dsn))


def ledger(kind: str, place: str) -> Ledger:
    """Open the ledger that another process uses too."""
    return {"sqlite": sqlite_ledger, "postgres": postgres_ledger}[kind](place)


def place_of(kind: str, folder: Path, dsn: str) -> str:
    return str(folder / "effects.db") if kind == "sqlite" else dsn
