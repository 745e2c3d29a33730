"""The routes that change a queue. Each is audited, and answers how many messages it changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field

from rmq_core import LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther
from rmq_core.console.audit import audited
from rmq_core.console.console import CHANGE_S
from rmq_core.console.host import host_of
from rmq_core.console.looks import Target, opened_console
from rmq_core.console.security import changes, user_of

router = APIRouter(prefix="/api/connections/{connection_id}", dependencies=changes)


class Redrive(BaseModel):
    """Which dead letters to make ready again: the given ones; all of them without `message_ids`."""

    queue: str
    message_ids: list[str] | None = Field(default=None, min_length=1, max_length=1000)


class Release(BaseModel):
    """Which lease to release, and the owner that the user saw; a lease that has another owner now is not released."""

    queue: str
    lease_id: str
    owner: str


class Purge(BaseModel):
    """Which messages to delete; `confirm` must repeat the name of the queue."""

    queue: str
    target: Target
    confirm: str


@router.post("/redrive")
async def redrive(request: Request, connection_id: str, wish: Redrive) -> dict[str, int]:
    async with entry(request, "rmq_redrive", connection_id, wish) as done:
        async with opened_console(request, connection_id, CHANGE_S) as opened:
            redriven = await opened.redrive(wish.queue, wish.message_ids)
        done(f"dead letters made ready again: {redriven}")
    return {"redriven": redriven}


@router.post("/release")
async def release(request: Request, connection_id: str, wish: Release) -> dict[str, int]:
    async with entry(request, "rmq_release", connection_id, wish) as done:
        try:
            async with opened_console(request, connection_id, CHANGE_S) as opened:
                released = await opened.release(wish.queue, wish.lease_id, wish.owner)
        except LeaseOwnedByOther as error:
            raise HTTPException(409, f"nothing was released: {error.detail}") from error
        except (LeaseLost, LeaseAlreadySettled) as error:
            raise HTTPException(409, "nothing was released: this lease has ended in the meantime") from error
        done(f"messages made ready again: {released}")
    return {"released": released}


@router.post("/purge")
async def purge(request: Request, connection_id: str, wish: Purge) -> dict[str, int]:
    async with entry(request, "rmq_purge", connection_id, wish) as done:
        if wish.confirm != wish.queue:
            raise HTTPException(400, "type the name of the queue to confirm that its messages are to be deleted")
        async with opened_console(request, connection_id, CHANGE_S) as opened:
            purged = await opened.purge(wish.queue, wish.target)
        done(f"{wish.target} messages deleted: {purged}")
    return {"purged": purged}


def entry(
    request: Request, event: str, connection_id: str, wish: BaseModel
) -> AbstractAsyncContextManager[Callable[[str], None]]:
    """Write an entry to the host's audit log for the change that the block makes; see `audited`."""
    host = host_of(request)
    fields = {"connection_id": connection_id, **wish.model_dump()}
    return audited(host.audit, event, host.access.name(user_of(request)), fields)
