"""Airflow's audit log: who asked for which change, and what came of it.

Law: the entry is there before anything changes, and a change that cannot be entered is not made. Its outcome is written
when it is known; an entry that still says `UNKNOWN` is of an API server that ended, or lost its database, in between.
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

UNKNOWN = "not known: the API server has not written how it ended"
GIVEN_UP = "given up half-way: what was done until then is done"
log = logging.getLogger(__name__)


@asynccontextmanager
async def entry(event: str, user: User, connection_id: str, wish: BaseModel) -> AsyncIterator[Callable[[str], None]]:
    """An entry for what the block does; the block calls what it gets with the outcome, or ends with what went wrong."""
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
    # What a database driver or a secrets backend says may hold a password; what we say of Redis never does.
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
    except Exception as error:  # noqa: BLE001  the change is made, and who asked for it must hear how it ended
        log.warning("The audit log has no outcome of %s (%s): %s", event, type(error).__name__, fields)
