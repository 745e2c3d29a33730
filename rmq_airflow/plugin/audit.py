"""Entries in Airflow's audit log: which user requested which change, and its outcome.

Law: the entry is written before anything changes, and without an entry no change is made. The outcome is written when
it is known. The outcome stays `UNKNOWN` if the API server ended, or lost its database, before it wrote the outcome.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import HTTPException
from pydantic import BaseModel
from sqlalchemy import update

from rmq_airflow.plugin.access import User
from rmq_core import RedisMessageQueueError

UNKNOWN = "not known: the API server has not recorded the outcome"
GIVEN_UP = "cancelled half-way: changes made before that remain"
log = logging.getLogger(__name__)


@asynccontextmanager
async def entry(event: str, user: User, connection_id: str, wish: BaseModel) -> AsyncIterator[Callable[[str], None]]:
    """Write an entry for the change that the block makes.

    The block passes the outcome to the function that it gets; if the block raises, the entry's outcome is the error.
    """
    fields = {"connection_id": connection_id, **wish.model_dump()}
    outcome = UNKNOWN

    def done(what: str) -> None:
        nonlocal outcome
        outcome = f"done: {what}"

    number = await asyncio.to_thread(_write, event, user.get_name(), fields)
    try:
        yield done
    except BaseException as error:
        outcome = _failure(error)
        raise
    finally:
        await asyncio.shield(asyncio.to_thread(_tell, number, event, {**fields, "outcome": outcome}))


def _failure(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return GIVEN_UP
    if isinstance(error, HTTPException):
        return f"failed: {error.detail}"
    # The error text of a database driver or a secrets backend may contain a password; our own Redis errors never do.
    text = str(error) if isinstance(error, RedisMessageQueueError | LookupError) else type(error).__name__
    return f"failed: {text}"


def _write(event: str, user: str, fields: dict[str, Any]) -> int:
    with create_session(scoped=False) as session:
        extra = json.dumps({**fields, "outcome": UNKNOWN})
        made = Log(event=event, owner=user, owner_display_name=user, extra=extra)
        session.add(made)
        session.flush()
        return int(made.id)


def _tell(number: int, event: str, fields: dict[str, Any]) -> None:
    try:
        with create_session(scoped=False) as session:
            session.execute(update(Log).where(Log.id == number).values(extra=json.dumps(fields)))
    except Exception as error:  # noqa: BLE001  the change is made, and the user must get its result
        log.warning("The audit log lacks the outcome of %s (%s): %s", event, type(error).__name__, fields)
