"""The routes that change queues, leases and messages. Each is audited, and answers how many messages it changed.

The record of a verb makes its route. Redrive, purge, discard and edit, which need a selection or contents, are written
out.

Law: a change of messages that meet conditions ends before the time for a request does, with the number of those that
were changed and whether there may be more; the page goes on with the next request until the user stops it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
from functools import partial
from typing import Any, Literal, NamedTuple

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field, create_model

from rmq_console.console import CHANGE_S
from rmq_console.host import ConfigOf, audited, changes, host_of, user_of
from rmq_console.queries import Target, opened_console
from rmq_core import (
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    Match,
    RedisSettings,
    __version__,
    discipline_of,
    open_queue,
)
from rmq_core.admin.verbs import VERBS, Verb, check_conditions, offered
from rmq_core.observe.history import acting_as
from rmq_core.protocol import DEFAULT
from rmq_core.reports import Progress
from rmq_core.transfer.moving import MoveReport
from rmq_core.transfer.moving import move as transferred

SLICE_S = 8.0
"""How long one request changes messages that meet conditions."""
MOVED_AT_ONCE = 50_000

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
async def redrive(request: Request, connection_id: str, body: Redrive) -> dict[str, Any]:
    verb = "redrive_some" if body.message_ids else "redrive"
    async with changing(request, verb, connection_id, body) as (queue, done):
        if body.where and body.message_ids:
            raise HTTPException(400, "message_ids, where: give one of them")
        if body.where:
            check_conditions(queue, "redrive")
            return await _in_slice("redriven", "dead letters made ready again", queue.admin.redrive, body.where, done)
        redriven = await (queue.admin.redrive_some(body.message_ids) if body.message_ids else queue.admin.redrive())
        done(f"dead letters made ready again: {redriven}")
    return {"redriven": redriven}


@router.post("/purge")
async def purge(request: Request, connection_id: str, body: Purge) -> dict[str, Any]:
    async with changing(request, "purge", connection_id, body) as (queue, done):
        if body.confirm != body.queue:
            raise HTTPException(400, "type the name of the queue to confirm that its messages are to be deleted")
        if body.where:
            check_conditions(queue, "purge")
            what = f"{body.target} messages deleted"
            return await _in_slice("purged", what, partial(queue.admin.purge, body.target), body.where, done)
        purged = await queue.admin.purge(body.target)
        done(f"{body.target} messages deleted: {purged}")
    return {"purged": purged}


class Move(BaseModel):
    """The queue into which to move all messages that no consumer holds; one of a new name is made."""

    queue: str
    target: str = Field(min_length=1, max_length=512)


@router.post("/move")
async def move(request: Request, connection_id: str, body: Move) -> dict[str, int]:
    host = host_of(request)
    async with (
        entry(request, "rmq_move", connection_id, body.model_dump()) as done,
        opened_console(request, connection_id, CHANGE_S) as opened,
        opened.opened(body.queue) as (_, discipline),
    ):
        settings = await asyncio.to_thread(host.places.settings, connection_id)
        with acting_as(_who(request)):
            moved = await asyncio.to_thread(_moved, settings, host.config, (body.queue, discipline), body.target)
        done(f"messages moved: {moved.moved}, not found any more: {moved.missing}, held and not moved: {moved.held}")
    return moved._asdict()


def _moved(settings: RedisSettings, config_of: ConfigOf, source: tuple[str, str], target: str) -> MoveReport:
    """Move the messages of a queue, of a name and a discipline. A thread goes on if the answer takes too long."""
    with closing(settings.client()) as client, ExitStack() as ends:
        both = source, (target, discipline_of(client, target) or DEFAULT)
        opened, into = (ends.enter_context(closing(open_queue(client, *each, config_of(*each)))) for each in both)
        return transferred(opened, into, __version__, MOVED_AT_ONCE)


def _who(request: Request) -> str:
    return f"{host_of(request).access.name(user_of(request))} (console)"


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
async def changing(request: Request, verb: str, connection_id: str, body: Any, **audit: Any) -> AsyncIterator[Changing]:
    """Open the queue that a request's body names, and audit its change; raise Unsupported if it lacks the verb.

    verb: the method of the queue's `admin`. audit: what the audit log shows besides the fields of the body.
    """
    fields = {**body.model_dump(exclude_none=True, by_alias=True), **audit}
    event = f"rmq_{VERBS[verb].word.replace('-', '_')}"
    async with (
        entry(request, event, connection_id, fields) as done,
        opened_console(request, connection_id, CHANGE_S) as opened,
        opened.opened(body.queue) as (queue, _),
    ):
        getattr(queue.admin, verb)  # raises Unsupported
        with acting_as(_who(request)):
            yield Changing(queue, done)


def entry(
    request: Request, event: str, connection_id: str, fields: dict[str, Any]
) -> AbstractAsyncContextManager[Callable[[str], None]]:
    """Write an entry to the host's audit log for the change that the block makes; see `audited`."""
    host = host_of(request)
    return audited(host.audit, event, host.access.name(user_of(request)), {"connection_id": connection_id, **fields})


class OfQueue(BaseModel):
    """The queue to change."""

    queue: str

    async def call(self, method: Any) -> Any:
        """Call a method with the fields, by their names."""
        return await method(**self.model_dump(exclude={"queue"}, exclude_none=True))


class OfLease(OfQueue):
    """Which lease to end, and the owner that the user saw; a lease that has another owner now is not ended."""

    lease_id: str
    if_owner: str = Field(alias="owner")


class OfMessage(OfQueue):
    """The id of a message."""

    message_id: str = Field(min_length=1, max_length=1000)


class Discard(OfQueue):
    """Which dead letters to delete."""

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


_OF: dict[str, type[OfQueue]] = {"queue": OfQueue, "lease": OfLease, "owner": OfQueue, "message": OfMessage}


def _body(verb: Verb) -> type[OfQueue]:
    """Return the model of a request: what it changes, and what else the verb takes."""
    fields: dict[str, Any] = {}
    for each in verb.takes:
        longest = 10_000 if each.kind is str else None
        own = list[str] if each.kind is list else each.kind
        kind, default = (own, ...) if each.required else (own | None, None)
        fields[each.name] = (kind, Field(default, ge=each.least, max_length=longest, description=each.help))
    return create_model(verb.name, __base__=_OF[verb.needs], **fields)


def _add(verb: Verb) -> None:
    async def change(request: Request, connection_id: str, body: OfQueue) -> dict[str, Any]:
        async with changing(request, verb.name, connection_id, body) as (queue, done):
            answer = verb.answer(await _changed(verb, body, queue))
            done(verb.outcome.format(**answer))
        return answer

    change.__annotations__["body"] = _body(verb)
    router.add_api_route(f"/{verb.word}", change, methods=["POST"])


async def _changed(verb: Verb, body: OfQueue, queue: Any) -> Any:
    """Return what the method returned; answer with 409 if the lease or message is not what the user saw."""
    try:
        if (found := await body.call(getattr(queue.admin, verb.name))) is not False:
            return found
        why = f"this message is {verb.otherwise} any more"
    except LeaseOwnedByOther as error:
        why = error.detail
    except (LeaseLost, LeaseAlreadySettled):
        why = "this lease has ended in the meantime"
    raise HTTPException(409, f"nothing was {verb.past}: {why}")


for each in offered():
    _add(each)


@router.post("/discard")
async def discard(request: Request, connection_id: str, body: Discard) -> dict[str, int]:
    async with changing(request, "discard", connection_id, body) as (queue, done):
        discarded = await queue.admin.discard(body.message_ids)
        done(f"dead letters deleted: {discarded}")
    return {"discarded": discarded}


@router.post("/edit")
async def edit(request: Request, connection_id: str, body: Edit) -> dict[str, bool]:
    # The audit log says what was changed, and not to what: payloads and headers may be confidential.
    changed = " and ".join(name for name in ("payload", "headers") if getattr(body, name) is not None)
    shown = OfMessage(queue=body.queue, message_id=body.message_id)
    async with changing(request, "edit", connection_id, shown, changed=changed) as (queue, done):
        by = host_of(request).access.name(user_of(request))
        if not await queue.admin.edit(body.message_id, body.value(), body.headers, by=by):
            raise HTTPException(409, "nothing was changed: this message is not a dead letter any more")
        done("the message is ready with the changes")
    return {"ready": True}
