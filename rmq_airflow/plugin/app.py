"""The page's routes. Each route checks the user's rights, calls the console, and returns errors as JSON."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any, Literal

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, Field

from rmq_airflow.plugin import access, audit, base_path, connections
from rmq_airflow.plugin.console import CHANGE_S, LOOK_S, Console, console
from rmq_airflow.plugin.survey import Order, survey_of
from rmq_core import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    QueueUnavailable,
    RedisMessageQueueError,
    Unsupported,
)

STATIC = Path(__file__).with_name("static")
ASSETS = frozenset(path.name for path in STATIC.iterdir())
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}

Turn = Literal["down", "up"]
Target = Literal["ready", "delayed", "dead"]
Name = Annotated[str, Query(min_length=1, max_length=512)]
Offset = Annotated[int, Query(ge=0, le=2**31)]

app = FastAPI(title="RMQ", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[access.page])


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


@app.get("/")
def index() -> FileResponse:
    return FileResponse(STATIC / "index.html", headers=HEADERS)


@app.get("/static/{name}")
def asset(name: str) -> FileResponse:
    if name not in ASSETS:
        raise HTTPException(404, f"there is no {name!r}")
    return FileResponse(STATIC / name, headers=HEADERS)


@app.get("/api/connections")
def connections_list(user: access.User) -> dict[str, Any]:
    known = connections.known()
    listed = [
        {"id": id_, "source": source, "may_edit": access.permitted(user, id_, "PUT")}
        for id_, source in known
        if access.permitted(user, id_, "GET")
    ]
    return {"connections": listed, "hidden": len(known) > len(listed), "base": base_path()}


@app.get("/api/connections/{connection_id}/queues", dependencies=[access.read])
async def queues_list(
    connection_id: str, search: str = "", offset: Offset = 0, sort: Order = "attention", turn: Turn = "down"
) -> dict[str, Any]:
    settings = await asyncio.to_thread(connections.settings, connection_id)
    async with console(settings) as opened:
        found = await opened.overview(survey_of(settings), search, offset, sort, down=turn == "down")
    return {"server": settings.url_without_credentials.partition("?")[0], **found}


@app.get("/api/connections/{connection_id}/queue", dependencies=[access.read])
async def queue_numbers(
    connection_id: str, name: Name, offset: Offset = 0, count: Annotated[int, Query(ge=1, le=100)] = 25
) -> dict[str, Any]:
    async with await _console(connection_id) as opened:
        return await opened.queue(name, offset, count)


@app.get("/api/connections/{connection_id}/messages", dependencies=[access.edit])
async def queue_messages(
    connection_id: str,
    name: Name,
    target: Target,
    offset: Offset = 0,
    count: Annotated[int, Query(ge=1, le=100)] = 25,
) -> dict[str, Any]:
    async with await _console(connection_id) as opened:
        return await opened.messages(name, target, offset, count)


@app.post("/api/connections/{connection_id}/redrive", dependencies=access.changes)
async def redrive(connection_id: str, wish: Redrive, user: access.User) -> dict[str, int]:
    async with audit.entry("rmq_redrive", user, connection_id, wish) as done:
        async with await _console(connection_id, CHANGE_S) as opened:
            redriven = await opened.redrive(wish.queue, wish.message_ids)
        done(f"dead letters made ready again: {redriven}")
    return {"redriven": redriven}


@app.post("/api/connections/{connection_id}/release", dependencies=access.changes)
async def release(connection_id: str, wish: Release, user: access.User) -> dict[str, int]:
    async with audit.entry("rmq_release", user, connection_id, wish) as done:
        try:
            async with await _console(connection_id, CHANGE_S) as opened:
                released = await opened.release(wish.queue, wish.lease_id, wish.owner)
        except LeaseOwnedByOther as error:
            raise HTTPException(409, f"nothing was released: {error.detail}") from error
        except (LeaseLost, LeaseAlreadySettled) as error:
            raise HTTPException(409, "nothing was released: this lease has ended in the meantime") from error
        done(f"messages made ready again: {released}")
    return {"released": released}


@app.post("/api/connections/{connection_id}/purge", dependencies=access.changes)
async def purge(connection_id: str, wish: Purge, user: access.User) -> dict[str, int]:
    async with audit.entry("rmq_purge", user, connection_id, wish) as done:
        if wish.confirm != wish.queue:
            raise HTTPException(400, "type the name of the queue to confirm that its messages are to be deleted")
        async with await _console(connection_id, CHANGE_S) as opened:
            purged = await opened.purge(wish.queue, wish.target)
        done(f"{wish.target} messages deleted: {purged}")
    return {"purged": purged}


async def _console(connection_id: str, limit_s: float = LOOK_S) -> AbstractAsyncContextManager[Console]:
    return console(await asyncio.to_thread(connections.settings, connection_id), limit_s)


@app.middleware("http")
async def _keep_nothing(request: Request, answer: Any) -> Any:
    response = await answer(request)
    if "/api/" in request.url.path:
        response.headers["Cache-Control"] = "no-store"  # a browser must not cache payloads
    return response


@app.exception_handler(RedisMessageQueueError)
def _queue_error(_: Request, error: RedisMessageQueueError) -> JSONResponse:
    statuses = {QueueUnavailable: 503, ConfigurationError: 400, Unsupported: 400}
    status = next((status for kind, status in statuses.items() if isinstance(error, kind)), 502)
    return _refusal(status, error)


@app.exception_handler(AirflowNotFoundException)
@app.exception_handler(LookupError)
def _nothing_there(_: Request, error: Exception) -> JSONResponse:
    return _refusal(404, error)


def _refusal(status: int, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error), "kind": type(error).__name__}, status)
