"""The routes that change one queue, lease or message: pause, resume, release, expire, run now, edit, delete, cancel."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field

from rmq_core import LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther
from rmq_core.console.changes import changing
from rmq_core.console.host import host_of
from rmq_core.console.security import changes, user_of

router = APIRouter(prefix="/api/connections/{connection_id}", dependencies=changes)


class OfQueue(BaseModel):
    """The queue to pause or to resume."""

    queue: str


class OfLease(BaseModel):
    """Which lease to end, and the owner that the user saw; a lease that has another owner now is not ended."""

    queue: str
    lease_id: str
    owner: str


class OfMessage(BaseModel):
    """The id of a message."""

    queue: str
    message_id: str = Field(min_length=1, max_length=1000)


class Discard(BaseModel):
    """Which dead letters to delete."""

    queue: str
    message_ids: list[str] = Field(min_length=1, max_length=1000)


class Edit(OfMessage):
    """What to change in a dead letter before it is ready again; None keeps the payload or the headers.

    kind: whether the payload is a text or JSON.
    """

    payload: str | None = None
    kind: Literal["json", "text"] = "json"
    headers: dict[str, str] | None = None

    def value(self) -> Any:
        """Return the payload. Raises HTTPException for a text that is not JSON."""
        if self.payload is None or self.kind == "text":
            return self.payload
        try:
            return json.loads(self.payload)
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, f"the payload is not JSON: {error}") from error


@router.post("/pause")
async def pause(request: Request, connection_id: str, wish: OfQueue) -> dict[str, bool]:
    async with changing(request, "rmq_pause", connection_id, wish, "pause") as (queue, done):
        await queue.admin.pause()
        done("claims return no messages")
    return {"paused": True}


@router.post("/resume")
async def resume(request: Request, connection_id: str, wish: OfQueue) -> dict[str, bool]:
    async with changing(request, "rmq_resume", connection_id, wish, "resume") as (queue, done):
        await queue.admin.resume()
        done("claims return messages again")
    return {"paused": False}


@router.post("/release")
async def release(request: Request, connection_id: str, wish: OfLease) -> dict[str, int]:
    async with changing(request, "rmq_release", connection_id, wish, "release_lease") as (queue, done):
        async with _nothing_done("released"):
            report = await queue.admin.release_lease(wish.lease_id, if_owner=wish.owner)
        done(f"messages made ready again: {report.settled}")
    return {"released": report.settled}


@router.post("/expire")
async def expire(request: Request, connection_id: str, wish: OfLease) -> dict[str, int]:
    async with changing(request, "rmq_expire", connection_id, wish, "expire_lease") as (queue, done):
        async with _nothing_done("expired"):
            report = await queue.admin.expire_lease(wish.lease_id, if_owner=wish.owner)
        done(f"messages taken from the holder: {report.settled}, of which dead letters now: {report.dead}")
    return {"expired": report.settled, "dead": report.dead}


@router.post("/run-now")
async def run_now(request: Request, connection_id: str, wish: OfMessage) -> dict[str, bool]:
    async with changing(request, "rmq_run_now", connection_id, wish, "run_now") as (queue, done):
        if not await queue.admin.run_now(wish.message_id):
            raise HTTPException(409, "nothing was changed: this message is not delayed any more")
        done("the message is ready")
    return {"ready": True}


@router.post("/discard")
async def discard(request: Request, connection_id: str, wish: Discard) -> dict[str, int]:
    async with changing(request, "rmq_discard", connection_id, wish, "discard") as (queue, done):
        discarded = await queue.admin.discard(wish.message_ids)
        done(f"dead letters deleted: {discarded}")
    return {"discarded": discarded}


@router.post("/edit")
async def edit(request: Request, connection_id: str, wish: Edit) -> dict[str, bool]:
    # The audit log says what was changed, and not to what: payloads and headers may be confidential.
    changed = " and ".join(name for name in ("payload", "headers") if getattr(wish, name) is not None)
    shown = OfMessage(queue=wish.queue, message_id=wish.message_id)
    async with changing(request, "rmq_edit", connection_id, shown, "edit", changed=changed) as (queue, done):
        by = host_of(request).access.name(user_of(request))
        if not await queue.admin.edit(wish.message_id, wish.value(), wish.headers, by=by):
            raise HTTPException(409, "nothing was changed: this message is not a dead letter any more")
        done("the message is ready with the changes")
    return {"ready": True}


@router.post("/cancel")
async def cancel(request: Request, connection_id: str, wish: OfMessage) -> dict[str, bool]:
    async with changing(request, "rmq_cancel", connection_id, wish, "cancel") as (queue, done):
        if not await queue.admin.cancel(wish.message_id):
            raise HTTPException(409, "nothing was removed: this message is neither ready nor delayed any more")
        done("messages removed: 1")
    return {"cancelled": True}


@asynccontextmanager
async def _nothing_done(word: str) -> AsyncIterator[None]:
    """Turn the errors for a lease that is not what the user saw into answers for the page."""
    try:
        yield
    except LeaseOwnedByOther as error:
        raise HTTPException(409, f"nothing was {word}: {error.detail}") from error
    except (LeaseLost, LeaseAlreadySettled) as error:
        raise HTTPException(409, f"nothing was {word}: this lease has ended in the meantime") from error
