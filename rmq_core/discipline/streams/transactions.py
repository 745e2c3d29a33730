"""What `run` asks of a database: transactions that begin, commit and roll back; and how each message goes through one.

The order is fixed: handle, commit, acknowledge. What fails on the way is rolled back and raised; nothing is tried again
here, and nothing is acknowledged that was not committed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class DbTx(Protocol):
    """A transaction, such as a DB-API connection in which one has begun."""

    def commit(self) -> Any:
        """Make its effects last."""

    def rollback(self) -> Any:
        """Undo its effects."""


class DbFactory(Protocol[T_co]):
    """Where transactions come from."""

    def begin(self) -> T_co:
        """A new transaction."""


class AsyncDbTx(Protocol):
    """The asyncio twin of DbTx."""

    async def commit(self) -> Any:
        """Make its effects last."""

    async def rollback(self) -> Any:
        """Undo its effects."""


class AsyncDbFactory(Protocol[T_co]):
    """The asyncio twin of DbFactory."""

    async def begin(self) -> T_co:
        """A new transaction."""


@contextmanager
def committed(tx: DbTx) -> Iterator[None]:
    """Commit when the block ends. When it does not, or the commit fails, roll back; that exception goes on.

    Also for KeyboardInterrupt and SystemExit. A rollback that fails is a note on the exception, never in its place.
    """
    try:
        yield
        tx.commit()
    except BaseException as error:
        try:
            tx.rollback()
        except Exception as failure:  # noqa: BLE001  whatever it is, what went wrong first is what matters
            _note(error, failure)
        raise


@asynccontextmanager
async def async_committed(tx: AsyncDbTx) -> AsyncIterator[None]:
    """The asyncio twin of `committed`; a cancellation is rolled back too."""
    try:
        yield
        await tx.commit()
    except BaseException as error:
        try:
            await tx.rollback()
        except Exception as failure:  # noqa: BLE001  whatever it is, what went wrong first is what matters
            _note(error, failure)
        raise


def _note(error: BaseException, failure: Exception) -> None:
    error.add_note(f"the rollback failed too: {type(failure).__name__}: {failure}")
