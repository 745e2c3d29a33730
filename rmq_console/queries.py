"""The routes that read: which servers there are, their queues, and the leases and messages of a queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from rmq_console.console import LOOK_S, Console, Known, Order, console, survey_of, trends_of
from rmq_console.host import host_of, messages, numbers, user_of, visible_error

Turn = Literal["down", "up"]
Target = Literal["ready", "delayed", "dead"]
Name = Annotated[str, Query(min_length=1, max_length=512)]
LeaseId = Annotated[str | None, Query(min_length=1, max_length=512)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Count = Annotated[int, Query(ge=1, le=100)]

SHOWN_WORDS = ("server", "hidden", "nothing", "publish", "no_messages", "no_change", "logout")
router = APIRouter(prefix="/api/connections")


@router.get("")
def connections_list(request: Request) -> dict[str, Any]:
    host, user = host_of(request), user_of(request)
    known = host.places.known()
    listed = [
        {
            "id": place.id,
            "source": place.source,
            "may_read": host.access.permitted(user, place.id, "messages"),
            "may_edit": host.access.permitted(user, place.id, "change"),
        }
        for place in known
        if host.access.permitted(user, place.id, "numbers")
    ]
    shown = {name: getattr(host.words, name) for name in SHOWN_WORDS}
    return {"connections": listed, "hidden": len(known) > len(listed), "words": shown, "user": host.access.name(user)}


@router.get("/{connection_id}/queues", dependencies=numbers)
async def queues_list(
    request: Request,
    connection_id: str,
    search: str = "",
    offset: Offset = 0,
    sort: Order = "attention",
    turn: Turn = "down",
) -> dict[str, Any]:
    host = host_of(request)
    settings = await asyncio.to_thread(host.places.settings, connection_id)
    async with console(settings, host) as opened:
        known = Known(survey_of(settings), trends_of(settings))
        found = await opened.overview(known, search, offset, sort, down=turn == "down")
    for row in found["queues"]:
        if "error" in row:
            row["error"] = visible_error(request, row["error"])
    server = settings.url_without_credentials.partition("?")[0] if request.state.sees_server else ""
    return {"server": server, **found}


@router.get("/{connection_id}/queue", dependencies=numbers)
async def queue_numbers(
    request: Request,
    connection_id: str,
    name: Name,
    offset: Offset = 0,
    count: Count = 25,
    lease_id: LeaseId = None,
) -> dict[str, Any]:
    host = host_of(request)
    settings = await asyncio.to_thread(host.places.settings, connection_id)
    async with console(settings, host) as opened:
        found = await opened.queue(trends_of(settings), name, offset, count, lease_id)
    if not host.access.permitted(user_of(request), connection_id, "messages"):
        found.pop("suspects", None)
    for shard in found.get("shards", ()):
        if shard["error"]:
            shard["error"] = visible_error(request, shard["error"])
    return found


@router.get("/{connection_id}/messages", dependencies=messages)
async def queue_messages(
    request: Request, connection_id: str, name: Name, target: Target, offset: Offset = 0, count: Count = 25
) -> dict[str, Any]:
    async with opened_console(request, connection_id) as opened:
        return await opened.messages(name, target, offset, count)


@router.get("/{connection_id}/groups", dependencies=messages)
async def queue_groups(request: Request, connection_id: str, name: Name, count: Count = 25) -> dict[str, Any]:
    async with opened_console(request, connection_id) as opened:
        return await opened.groups(name, count)


@asynccontextmanager
async def opened_console(request: Request, connection_id: str, limit_s: float = LOOK_S) -> AsyncIterator[Console]:
    """Open a console on a server of the host for a block that may last `limit_s` seconds."""
    host = host_of(request)
    settings = await asyncio.to_thread(host.places.settings, connection_id)
    async with console(settings, host, limit_s) as opened:
        yield opened
