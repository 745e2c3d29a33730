"""The routes that search messages, list dead letters by reason, read a lease, export, and show history and timelines.

Law: an answer reads a bounded number of messages. A search answers one page and where to go on; the page asks again
until the end or until the user stops it. An export is sent while it is read.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from rmq_console.changes import Where, changing, entry
from rmq_console.console import Console
from rmq_console.host import HolderOf, changes, from_our_page, host_of, messages, numbers
from rmq_console.queries import Count, Name, Offset, opened_console
from rmq_console.shown import SHOWN_BYTES, message_shown, ms_of
from rmq_core import Unsupported, __version__
from rmq_core.admin.verbs import said
from rmq_core.envelope.export_record import StoredMessage, is_isolated
from rmq_core.envelope.matching import Test
from rmq_core.kernel.base import tools_of
from rmq_core.observe.history import between, columns, reach
from rmq_core.policy import moment
from rmq_core.reports import Progress, ReasonGroup, SearchPage
from rmq_core.transfer.exporting import Digest, Footer, Header, footer_line, header_line, message_line

Span = Literal["hour", "day", "month"]
Moment = Annotated[int | None, Query(ge=0, le=1 << 42)]
SPANS: dict[Span, dict[str, int]] = {"hour": {"minutes": 60}, "day": {"minutes": 1440}, "month": {"hours": 720}}

history_router = APIRouter(prefix="/api/connections/{connection_id}")


class Marking(BaseModel):
    """A text to mark this moment with, such as `deployed 1.4`."""

    queue: str
    text: str = Field(min_length=1, max_length=200)


@history_router.get("/history", dependencies=numbers)
async def history(
    request: Request, connection_id: str, name: Name, span: Span = "hour", begin: Moment = None, end: Moment = None
) -> dict[str, Any]:
    """Return the history of a span until now, or of the time from `begin` to `end`; these are ms since 1970."""
    now, asked = datetime.now(UTC), SPANS[span]
    since, until = moment(begin or 0), moment(end) if end is not None else now
    if begin is not None:
        minutes, hours = reach(now - since)
        asked = {"minutes": minutes} if minutes else {"hours": min(hours or 1, SPANS["month"]["hours"])}
    async with opened_console(request, connection_id) as opened, opened.opened(name) as (queue, _):
        points = between(await queue.admin.history(**asked), since, until)
        marks = await queue.admin.marks()
    if not points:
        raise HTTPException(400, "nothing is kept of that time: it must end after it begins, within the last 30 days")
    first, last = points[0].at, points[-1].at + timedelta(seconds=points[-1].seconds)
    return {
        "seconds": points[0].seconds,
        "columns": columns(points),
        "marks": [{**mark.record(), "said": said(mark)} for mark in marks if first <= mark.at < last],
    }


@history_router.post("/mark", dependencies=changes)
async def mark(request: Request, connection_id: str, body: Marking) -> dict[str, bool]:
    async with changing(request, "mark", connection_id, body) as (queue, done):
        await queue.admin.mark(body.text)
        done("this moment is marked in the history")
    return {"marked": True}


@history_router.get("/why", dependencies=messages)
async def why(
    request: Request, connection_id: str, name: Name, message_id: Annotated[str, Query(min_length=1, max_length=1000)]
) -> dict[str, Any]:
    async with opened_console(request, connection_id) as opened, opened.opened(name) as (queue, _):
        timeline = (await queue.admin.why(message_id)).record()
    holder_of = host_of(request).holder
    return {**timeline, "steps": [_with_holder(step, holder_of) for step in timeline["steps"]]}


def _with_holder(step: dict[str, Any], holder_of: HolderOf) -> dict[str, Any]:
    return {**step, "holder": holder_of(step["who"]) if step.get("who") else None}


State = Literal["ready", "isolated", "delayed", "leased", "dead"]
MANY, SHORT_BYTES = 25, 2_000
"""Payloads of a page with more hits than this are cut to so many bytes: an answer has at most a few megabytes."""
GROUPING_S, COUNTING_S = 3.5, 2.0
EXPORT_S = 24 * 3600.0

router = APIRouter(prefix="/api/connections/{connection_id}", dependencies=messages)


class Search(BaseModel):
    """Which messages to look for, in which state; `after` is that of the page before."""

    queue: str
    target: State
    where: Where
    after: str | None = Field(default=None, max_length=1 << 20)


@router.post("/search", dependencies=[Depends(from_our_page)])
async def search(request: Request, connection_id: str, body: Search) -> dict[str, Any]:
    holder_of = host_of(request).holder
    async with opened_console(request, connection_id) as opened, opened.opened(body.queue) as (queue, _):
        if body.target == "isolated" and body.target not in tools_of(queue).stored_states:
            page = SearchPage([], [], [], 0, 0, None)  # a search of all states asks for it, too
        else:
            page = await queue.admin.search(body.target, body.where.match(), after=body.after)
    most = SHOWN_BYTES if len(page.messages) <= MANY else SHORT_BYTES
    shown = [
        {**message_shown(message, holder_of, due, most), "lease": message.lease_id, "owner": owner}
        for message, due, owner in zip_longest(page.messages, page.due, page.owners)
    ]
    about = {"scanned": page.scanned, "total": page.total, "after": page.after, "moved": page.moved}
    return {**about, "messages": shown}


@router.post("/count", dependencies=[Depends(from_our_page)])
async def count(request: Request, connection_id: str, body: Search) -> dict[str, Any]:
    """Count the messages that a purge, or a redrive, would change; `next` is where the count goes on, None at its end.

    Those that are ready include the isolated ones, as for a purge.
    """
    until, found = time.monotonic() + COUNTING_S, 0
    target, after, where = body.target, body.after, body.where.match()
    async with opened_console(request, connection_id) as opened, opened.opened(body.queue) as (queue, _):
        while True:
            page = await queue.admin.search(target, where, after=after)
            found, after = found + len(page.messages), page.after
            if after is None and (target != "ready" or "isolated" not in tools_of(queue).stored_states):
                return {"count": found, "next": None}
            if after is None:
                target = "isolated"
            if time.monotonic() >= until:
                return {"count": found, "next": {"target": target, "after": after}}


@router.get("/reasons")
async def reasons(request: Request, connection_id: str, name: Name) -> dict[str, Any]:
    grouping = _Grouping()
    async with opened_console(request, connection_id) as opened, opened.opened(name) as (queue, _):
        groups = await queue.admin.dead_reasons(progress=grouping)
    return {"counted": grouping.last.scanned, "total": grouping.last.total, "groups": [_group(each) for each in groups]}


@router.get("/lease")
async def lease_messages(
    request: Request, connection_id: str, name: Name, lease_id: Name, offset: Offset = 0, count: Count = 25
) -> dict[str, Any]:
    holder_of = host_of(request).holder
    async with opened_console(request, connection_id) as opened, opened.opened(name) as (queue, _):
        found = await queue.admin.browse_lease(lease_id, offset, offset + count)
    return {"offset": offset, "messages": [message_shown(message, holder_of) for message in found]}


Text = Annotated[str | None, Query(min_length=1, max_length=10_000)]


def conditions(
    text: Text = None, header: Text = None, reason: Text = None, group: Text = None, message_id: Text = None
) -> Where:
    """Return the conditions in the address of a request."""
    return Where(text=text, header=header, reason=reason, group=group, message_id=message_id)


@router.get("/export")
async def export(
    request: Request, connection_id: str, name: Name, target: State, where: Annotated[Where, Depends(conditions)]
) -> StreamingResponse:
    stack = AsyncExitStack()
    async with stack:
        fields = {"queue": name, "target": target, **where.model_dump(exclude_none=True)}
        done = await stack.enter_async_context(entry(request, "rmq_export", connection_id, fields))
        opened: Console = await stack.enter_async_context(opened_console(request, connection_id, EXPORT_S))
        queue, _ = await stack.enter_async_context(opened.opened(name))
        selection = Selection(queue, target, where)
        held = stack.pop_all()
    file = quote(f"{name}-{target}.ndjson", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{file}"}
    return StreamingResponse(_sent(held, selection, done), media_type="application/x-ndjson", headers=headers)


class Selection:
    """The messages of an export that meet conditions, as the lines that `rmq import` reads."""

    def __init__(self, queue: Any, target: State, where: Where) -> None:
        self._queue, self._target = queue, target
        self._test: Test | None = where.match().of_envelope if any(where.model_dump().values()) else None
        if target not in tools_of(queue).stored_states:
            raise Unsupported(queue.discipline, f"{target} messages", ("leased",))
        self.exported = 0

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines, those of one page at a time."""
        stats = await self._queue.stats()
        digest, changed = Digest(), False
        cursor: tuple[Any, ...] | None = ()
        present: dict[str, int] = {self._target: _number_of(stats, self._target)}
        queue, state = self._queue, str(self._target)
        yield header_line(Header(queue.name, queue.discipline, __version__, [self._target], present, live=True))
        while cursor is not None:
            page = await tools_of(queue).export_page(state, cursor)
            if state == "isolated" and not cursor and not page.messages and stats.isolated:
                state, cursor = "ready", ()  # where messages wait in groups, they are among the others
                continue
            cursor, changed = page.cursor, changed or page.moved
            lines = [
                message_line(each._replace(state=self._target)) for each in page.messages if self._chooses(each, state)
            ]
            for line in lines:
                digest.add(line[:-1])
            self.exported += len(lines)
            yield b"".join(lines)
        yield footer_line(Footer(self.exported, {self._target: self.exported}, digest.text, changed))

    def _chooses(self, message: StoredMessage, state: str) -> bool:
        """Return whether to export a message that is stored in a state."""
        if state != self._target and not is_isolated(message.envelope):
            return False
        return self._test is None or self._test(message.envelope)


async def _sent(held: AsyncExitStack, selection: Selection, done: Any) -> AsyncIterator[bytes]:
    async with held:
        async for part in selection.lines():
            yield part
        done(f"messages exported: {selection.exported}")


class _Grouping:
    """Stops the grouping of very many dead letters in time for an answer."""

    def __init__(self) -> None:
        self._until = time.monotonic() + GROUPING_S
        self.last = Progress(0, 0, 0)

    def __call__(self, done: Progress) -> bool:
        self.last = done
        return time.monotonic() < self._until


def _group(group: ReasonGroup) -> dict[str, Any]:
    return {
        "reason": group.reason,
        "count": group.count,
        "oldest": None if group.oldest is None else ms_of(group.oldest),
        "newest": None if group.newest is None else ms_of(group.newest),
        "example": group.example,
    }


def _number_of(stats: Any, target: State) -> int:
    return int(stats.ready - stats.isolated if target == "ready" else getattr(stats, target))
