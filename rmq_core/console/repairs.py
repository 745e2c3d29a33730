"""The routes that change one queue, lease or message: one for each verb, made from its record; and discard and edit."""

from __future__ import annotations

import json
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field

from rmq_core import LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther
from rmq_core.console.changes import changing
from rmq_core.console.host import host_of
from rmq_core.console.security import changes, user_of
from rmq_core.queue.verbs import Verb, offered

router = APIRouter(prefix="/api/connections/{connection_id}", dependencies=changes)


class OfQueue(BaseModel):
    """The queue to change."""

    queue: str

    async def call(self, method: Any) -> Any:
        return await method()


class OfLease(OfQueue):
    """Which lease to end, and the owner that the user saw; a lease that has another owner now is not ended."""

    lease_id: str
    owner: str

    async def call(self, method: Any) -> Any:
        return await method(self.lease_id, if_owner=self.owner)


class OfMessage(OfQueue):
    """The id of a message."""

    message_id: str = Field(min_length=1, max_length=1000)

    async def call(self, method: Any) -> Any:
        return await method(self.message_id)


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


def _add(verb: Verb) -> None:
    async def change(request: Request, connection_id: str, wish: OfQueue) -> dict[str, Any]:
        async with changing(request, verb.name, connection_id, wish) as (queue, done):
            answer = verb.answer(await _changed(verb, wish, queue))
            done(verb.outcome.format(**answer))
        return answer

    change.__annotations__["wish"] = {"nothing": OfQueue, "lease": OfLease, "message": OfMessage}[verb.needs]
    router.add_api_route(f"/{verb.word}", change, methods=["POST"])


async def _changed(verb: Verb, wish: OfQueue, queue: Any) -> Any:
    """Return what the method returned; answer with 409 if the lease or message is not what the user saw."""
    try:
        if (found := await wish.call(getattr(queue.admin, verb.name))) is not False:
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
async def discard(request: Request, connection_id: str, wish: Discard) -> dict[str, int]:
    async with changing(request, "discard", connection_id, wish) as (queue, done):
        discarded = await queue.admin.discard(wish.message_ids)
        done(f"dead letters deleted: {discarded}")
    return {"discarded": discarded}


@router.post("/edit")
async def edit(request: Request, connection_id: str, wish: Edit) -> dict[str, bool]:
    # The audit log says what was changed, and not to what: payloads and headers may be confidential.
    changed = " and ".join(name for name in ("payload", "headers") if getattr(wish, name) is not None)
    shown = OfMessage(queue=wish.queue, message_id=wish.message_id)
    async with changing(request, "edit", connection_id, shown, changed=changed) as (queue, done):
        by = host_of(request).access.name(user_of(request))
        if not await queue.admin.edit(wish.message_id, wish.value(), wish.headers, by=by):
            raise HTTPException(409, "nothing was changed: this message is not a dead letter any more")
        done("the message is ready with the changes")
    return {"ready": True}
