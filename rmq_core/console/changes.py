"""The routes that change many messages: redrive and purge. Each is audited, and answers how many it changed.

Law: a change of messages that meet conditions ends before the time for a request does, with the number of those that
were changed and whether there may be more; the page goes on with the next request until the user stops it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field

from rmq_core import Match
from rmq_core.console.audit import audited
from rmq_core.console.console import CHANGE_S
from rmq_core.console.host import host_of
from rmq_core.console.queries import Target, opened_console
from rmq_core.console.security import changes, user_of
from rmq_core.history import acting_as
from rmq_core.queue.verbs import VERBS, check_conditions
from rmq_core.reports import Progress

SLICE_S = 8.0
"""How long one request changes messages that meet conditions."""

router = APIRouter(prefix="/api/connections/{connection_id}", dependencies=changes)


class Where(BaseModel):
    """Conditions on messages, all of which must hold; see `Match`."""

    text: str | None = Field(default=None, max_length=10_000)
    message_id: str | None = Field(default=None, max_length=1000)
    dedup_key: str | None = Field(default=None, max_length=10_000)
    header: str | None = Field(default=None, max_length=10_000)
    reason: str | None = Field(default=None, max_length=10_000)
    group: str | None = Field(default=None, max_length=10_000)

    def match(self) -> Match:
        """Return the conditions. Raises ConfigurationError when none is given."""
        return Match(**self.model_dump())


class Redrive(BaseModel):
    """Which dead letters to make ready again: the given ones, those that meet conditions, or all."""

    queue: str
    message_ids: list[str] | None = Field(default=None, min_length=1, max_length=1000)
    where: Where | None = None


class Purge(BaseModel):
    """Which messages to delete, all or those that meet conditions; `confirm` must repeat the name of the queue."""

    queue: str
    target: Target
    confirm: str
    where: Where | None = None


@router.post("/redrive")
async def redrive(request: Request, connection_id: str, wish: Redrive) -> dict[str, Any]:
    verb = "redrive_some" if wish.message_ids else "redrive"
    async with changing(request, verb, connection_id, wish) as (queue, done):
        if wish.where and wish.message_ids:
            raise HTTPException(400, "message_ids, where: give one of them")
        if wish.where:
            check_conditions(queue, "redrive")
            return await _in_slice("redriven", "dead letters made ready again", queue.admin.redrive, wish.where, done)
        redriven = await (queue.admin.redrive_some(wish.message_ids) if wish.message_ids else queue.admin.redrive())
        done(f"dead letters made ready again: {redriven}")
    return {"redriven": redriven}


@router.post("/purge")
async def purge(request: Request, connection_id: str, wish: Purge) -> dict[str, Any]:
    async with changing(request, "purge", connection_id, wish) as (queue, done):
        if wish.confirm != wish.queue:
            raise HTTPException(400, "type the name of the queue to confirm that its messages are to be deleted")
        if wish.where:
            check_conditions(queue, "purge")
            what = f"{wish.target} messages deleted"
            return await _in_slice("purged", what, partial(queue.admin.purge, wish.target), wish.where, done)
        purged = await queue.admin.purge(wish.target)
        done(f"{wish.target} messages deleted: {purged}")
    return {"purged": purged}


class _Slice:
    """Stops a long change when the time of its request is over."""

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_S
        self.complete, self.last = True, Progress(0, 0, 0)

    def __call__(self, done: Progress) -> bool:
        self.last = done
        self.complete = time.monotonic() < self._until or done.scanned >= done.total
        return self.complete


async def _in_slice(
    name: str, what: str, change: Callable[..., Any], where: Where, done: Callable[[str], None]
) -> dict[str, Any]:
    part = _Slice()
    changed = await change(where=where.match(), progress=part)
    done(f"{what}: {changed}{'' if part.complete else ', and there may be more'}")
    return {name: changed, "complete": part.complete, "scanned": part.last.scanned, "total": part.last.total}


class Changing(NamedTuple):
    """The queue that a request changes, and the function that notes the outcome of the change."""

    queue: Any
    done: Callable[[str], None]


@asynccontextmanager
async def changing(request: Request, verb: str, connection_id: str, wish: Any, **audit: Any) -> AsyncIterator[Changing]:
    """Open the queue of a wish for a change that is audited; refuse it if the queue's discipline lacks the verb.

    verb: the method of the queue's `admin`. audit: what the audit log shows besides the fields of the wish.
    """
    fields = {**wish.model_dump(exclude_none=True), **audit}
    event = f"rmq_{VERBS[verb].word.replace('-', '_')}"
    async with (
        entry(request, event, connection_id, fields) as done,
        opened_console(request, connection_id, CHANGE_S) as opened,
        opened.opened(wish.queue) as (queue, _),
    ):
        getattr(queue.admin, verb)  # raises Unsupported
        with acting_as(f"{host_of(request).access.name(user_of(request))} (console)"):
            yield Changing(queue, done)


def entry(
    request: Request, event: str, connection_id: str, fields: dict[str, Any]
) -> AbstractAsyncContextManager[Callable[[str], None]]:
    """Write an entry to the host's audit log for the change that the block makes; see `audited`."""
    host = host_of(request)
    return audited(host.audit, event, host.access.name(user_of(request)), {"connection_id": connection_id, **fields})
