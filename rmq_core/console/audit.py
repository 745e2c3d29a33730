"""Entries in the host's audit log: which user requested which change, and its outcome.

Law: the entry is written before anything changes, and without an entry no change is made. The outcome is written when
it is known. The outcome stays `UNKNOWN` if the server ended, or lost its log, before it wrote the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from fastapi import HTTPException

from rmq_core import RedisMessageQueueError

UNKNOWN = "not known: the server has not recorded the outcome"
GIVEN_UP = "cancelled half-way: changes made before that remain"
log = logging.getLogger(__name__)


class AuditLog(Protocol):
    """Where the entries are written. Both methods may block, and an exception of theirs means that nothing was written.

    Fields of an entry: the server as `connection_id`, what the request asked for, and the `outcome`.
    """

    def write(self, event: str, user: str, fields: Mapping[str, Any]) -> Any:
        """Write an entry whose outcome is not known yet; return what `complete` needs to find it again."""

    def complete(self, entry: Any, event: str, user: str, fields: Mapping[str, Any]) -> None:
        """Write the outcome of an entry."""


@asynccontextmanager
async def audited(
    where: AuditLog, event: str, user: str, fields: Mapping[str, Any]
) -> AsyncIterator[Callable[[str], None]]:
    """Write an entry for the change that the block makes.

    The block passes the outcome to the function that it gets; if the block raises, the entry's outcome is the error.
    """
    outcome = UNKNOWN

    def done(what: str) -> None:
        nonlocal outcome
        outcome = f"done: {what}"

    entry = await asyncio.to_thread(where.write, event, user, {**fields, "outcome": UNKNOWN})
    try:
        yield done
    except BaseException as error:
        outcome = _failure(error)
        raise
    finally:
        told = {**fields, "outcome": outcome}
        await asyncio.shield(asyncio.to_thread(_complete, where, entry, event, user, told))


def _complete(where: AuditLog, entry: Any, event: str, user: str, fields: Mapping[str, Any]) -> None:
    try:
        where.complete(entry, event, user, fields)
    except Exception as error:  # the change is made, and the user must get its result
        log.warning("The audit log lacks the outcome of %s (%s): %s", event, type(error).__name__, fields)


def _failure(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return GIVEN_UP
    if isinstance(error, HTTPException):
        return f"failed: {error.detail}"
    # The error text of a database driver or a secrets backend may contain a password; our own Redis errors never do.
    text = str(error) if isinstance(error, RedisMessageQueueError | LookupError) else type(error).__name__
    return f"failed: {text}"
