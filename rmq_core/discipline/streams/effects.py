"""Exactly-once effects: the transaction of a message's effects also writes a row for the message.

Delivery is at least once. When a message is redelivered after its effects were committed, its row exists. The handler
is then not called, and the message is acknowledged. This works with any DB-API 2.0 connection to a database that
supports `INSERT ... ON CONFLICT DO NOTHING`, as SQLite (3.24) and PostgreSQL (9.5) do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from rmq_core.discipline.streams.messages import QueueMessage
from rmq_core.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_MARKS = {"qmark": "?, ?", "format": "%s, %s", "pyformat": "%s, %s", "numeric": ":1, :2"}


class Connection(Protocol):
    """The methods of a DB-API 2.0 connection that are needed here."""

    def cursor(self) -> Any:
        """Return a cursor."""

    def commit(self) -> Any:
        """Commit the transaction."""

    def rollback(self) -> Any:
        """Roll the transaction back."""


C = TypeVar("C", bound=Connection)


class DbApi(Generic[C]):
    """A `db_factory` for `run`: the transactions of one DB-API connection, which begins each implicitly."""

    def __init__(self, connection: C) -> None:
        self.connection = connection

    def begin(self) -> C:
        """Return the connection; the first statement on it begins the transaction."""
        return self.connection


class EffectsOnce:
    """Makes handlers skip messages whose effects were committed before.

    paramstyle: that of the database module, such as `sqlite3.paramstyle`. table: the name of the table of rows.
    """

    def __init__(self, paramstyle: str, table: str = "rmq_processed") -> None:
        if paramstyle not in _MARKS:
            raise ConfigurationError(f"paramstyle must be one of {', '.join(_MARKS)}, not {paramstyle!r}")
        if not _NAME.fullmatch(table):
            raise ConfigurationError(f"table must be a plain SQL name, not {table!r}")
        self._create = (
            f"CREATE TABLE IF NOT EXISTS {table} (queue TEXT NOT NULL, message TEXT NOT NULL, "
            "processed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (queue, message))"
        )
        self._insert = f"INSERT INTO {table} (queue, message) VALUES ({_MARKS[paramstyle]}) ON CONFLICT DO NOTHING"  # noqa: S608  checked

    def create_table(self, connection: Connection) -> None:
        """Create the table if it is missing, and commit. Delete a row only when its message cannot be redelivered."""
        self._execute(connection, self._create)
        connection.commit()

    def first(self, message: QueueMessage, tx: Connection) -> bool:
        """Record in the transaction that this message is processed. Return False if an earlier transaction did so."""
        return self._execute(tx, self._insert, (f"{message.stream} {message.group}", message.id)) == 1

    def __call__(self, handler: Callable[[QueueMessage, C], object]) -> Callable[[QueueMessage, C], None]:
        """Return a handler that calls `handler` only for messages that were not processed before."""

        def handle(message: QueueMessage, tx: C) -> None:
            if self.first(message, tx):
                handler(message, tx)

        return handle

    def _execute(self, connection: Connection, statement: str, values: tuple[str, ...] = ()) -> int:
        cursor = connection.cursor()
        try:
            cursor.execute(statement, values)
            return int(cursor.rowcount)
        finally:
            cursor.close()
