"""The database transactions of `run`: it begins one for each message, and commits it or rolls it back.

The order is fixed: handle, commit, acknowledge. A failure up to the commit rolls the transaction back and is raised.
Nothing is retried here, and a message is acknowledged only after its transaction was committed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from rmq_core.queue.twin import awaited

T_co = TypeVar("T_co", covariant=True)


class DbTx(Protocol):
    """A transaction, such as a DB-API connection in which one has begun. For asyncio, its methods are coroutines."""

    def commit(self) -> Any:
        """Commit the transaction."""

    def rollback(self) -> Any:
        """Roll the transaction back."""


class DbFactory(Protocol[T_co]):
    """A source of transactions."""

    def begin(self) -> T_co:
        """Return a new transaction."""


class AsyncDbFactory(Protocol[T_co]):
    """The asyncio version of DbFactory."""

    async def begin(self) -> T_co:
        """Return a new transaction."""


@asynccontextmanager
async def committed(tx: DbTx) -> AsyncIterator[None]:
    """Commit when the block ends. If the block or the commit raises, roll back and raise the exception again.

    This includes KeyboardInterrupt, SystemExit and a cancellation. An error of the rollback becomes a note on that
    exception and never replaces it.
    """
    try:
        yield
        await awaited(tx.commit())
    except BaseException as error:
        try:
            await awaited(tx.rollback())
        except Exception as failure:  # roll back after any error, then raise the first one
            error.add_note(f"the rollback failed too: {type(failure).__name__}: {failure}")
        raise
