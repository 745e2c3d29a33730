"""The routes of what happened: the history of a queue with its marks, and the timeline of one message."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from rmq_core.console.changes import changing
from rmq_core.console.host import HolderOf, host_of
from rmq_core.console.queries import Name, opened_console
from rmq_core.console.security import changes, messages, numbers
from rmq_core.history import columns

Span = Literal["hour", "day", "month"]
SPANS: dict[Span, dict[str, int]] = {"hour": {"minutes": 60}, "day": {"minutes": 1440}, "month": {"hours": 720}}

router = APIRouter(prefix="/api/connections/{connection_id}")


class Marking(BaseModel):
    """A text to mark this moment with, such as `deployed 1.4`."""

    queue: str
    text: str = Field(min_length=1, max_length=200)


@router.get("/history", dependencies=numbers)
async def history(request: Request, connection_id: str, name: Name, span: Span = "hour") -> dict[str, Any]:
    async with opened_console(request, connection_id) as opened, opened.opened(name) as (queue, _):
        points = await queue.admin.history(**SPANS[span])
        marks = await queue.admin.marks()
    first = points[0].at
    return {
        "seconds": points[0].seconds,
        "columns": columns(points),
        "marks": [mark.record() for mark in marks if mark.at >= first],
    }


@router.post("/mark", dependencies=changes)
async def mark(request: Request, connection_id: str, wish: Marking) -> dict[str, bool]:
    async with changing(request, "mark", connection_id, wish) as (queue, done):
        await queue.admin.mark(wish.text)
        done("this moment is marked in the history")
    return {"marked": True}


@router.get("/why", dependencies=messages)
async def why(
    request: Request, connection_id: str, name: Name, message_id: Annotated[str, Query(min_length=1, max_length=1000)]
) -> dict[str, Any]:
    async with opened_console(request, connection_id) as opened, opened.opened(name) as (queue, _):
        timeline = (await queue.admin.why(message_id)).record()
    holder_of = host_of(request).holder
    return {**timeline, "steps": [_with_holder(step, holder_of) for step in timeline["steps"]]}


def _with_holder(step: dict[str, Any], holder_of: HolderOf) -> dict[str, Any]:
    return {**step, "holder": holder_of(step["who"]) if step.get("who") else None}
