"""The database transactions of `run`: it begins one for each message, and commits it or rolls it back.

The order is fixed: handle, commit, acknowledge. A failure up to the commit rolls the transaction back and is raised.
Nothing is retried here, and a message is acknowledged only after its transaction was committed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class DbTx(Protocol):
    """A transaction, such as a DB-API connection in which one has begun."""

    def commit(self) -> Any:
        """Commit the transaction."""

    def rollback(self) -> Any:
        """Roll the transaction back."""


class DbFactory(Protocol[T_co]):
    """A source of transactions."""

    def begin(self) -> T_co:
        """Return a new transaction."""


class AsyncDbTx(Protocol):
    """The asyncio version of DbTx."""

    async def commit(self) -> Any:
        """Commit the transaction."""

    async def rollback(self) -> Any:
        """Roll the transaction back."""


class AsyncDbFactory(Protocol[T_co]):
    """The asyncio version of DbFactory."""

    async def begin(self) -> T_co:
        """Return a new transaction."""


@contextmanager
def committed(tx: DbTx) -> Iterator[None]:
    """Commit when the block ends. If the block or the commit raises, roll back and raise the exception again.

    This includes KeyboardInterrupt and SystemExit. An error of the rollback becomes a note on that exception and never
    replaces it.
    """
    try:
        yield
        tx.commit()
    except BaseException as error:
        try:
            tx.rollback()
        except Exception as failure:  # roll back after any error, then raise the first one
            _note(error, failure)
        raise


@asynccontextmanager
async def async_committed(tx: AsyncDbTx) -> AsyncIterator[None]:
    """The asyncio version of `committed`; a cancellation rolls back too."""
    try:
        yield
        await tx.commit()
    except BaseException as error:
        try:
            await tx.rollback()
        except Exception as failure:  # roll back after any error, then raise the first one
            _note(error, failure)
        raise


def _note(error: BaseException, failure: Exception) -> None:
    error.add_note(f"the rollback failed too: {type(failure).__name__}: {failure}")
