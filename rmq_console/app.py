"""The application: the page, its files, the routes of the API, and errors as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, JSONResponse

from rmq_console import changes, queries, searches
from rmq_console.host import Host, visible_error
from rmq_core import ConfigurationError, PayloadError, QueueUnavailable, RedisMessageQueueError, Unsupported

STATIC = Path(__file__).with_name("static")
ASSETS = frozenset(path.name for path in STATIC.iterdir())
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
STATUSES = {QueueUnavailable: 503, ConfigurationError: 400, PayloadError: 400, Unsupported: 400}

page = APIRouter()


def create_app(host: Host) -> FastAPI:
    """Return the console of a host. Every route requires that the host identifies the user."""
    identified = [Depends(host.access.identify)]
    app = FastAPI(title="RMQ", docs_url=None, redoc_url=None, openapi_url=None, dependencies=identified)
    app.state.host = host
    for router in (page, queries.router, changes.router, searches.router, searches.history_router):
        app.include_router(router)
    app.middleware("http")(_keep_nothing)
    answer_errors(app)
    return app


def answer_errors(app: FastAPI) -> None:
    """Let an application answer errors of RMQ, and LookupError, as JSON with a status."""
    app.add_exception_handler(RedisMessageQueueError, _queue_error)
    app.add_exception_handler(LookupError, _nothing_there)


@page.get("/")
def index() -> FileResponse:
    return FileResponse(STATIC / "index.html", headers=HEADERS)


@page.get("/static/{name}")
def asset(name: str) -> FileResponse:
    if name not in ASSETS:
        raise HTTPException(404, f"there is no {name!r}")
    return FileResponse(STATIC / name, headers=HEADERS)


async def _keep_nothing(request: Request, answer: Any) -> Any:
    response = await answer(request)
    if "/api/" in request.url.path:
        response.headers["Cache-Control"] = "no-store"  # a browser must not cache payloads
    return response


def _queue_error(request: Request, error: Exception) -> JSONResponse:
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 502)
    return _refusal(status, error, visible_error(request, str(error)))


def _nothing_there(_: Request, error: Exception) -> JSONResponse:
    return _refusal(404, error, str(error))


def _refusal(status: int, error: Exception, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail, "kind": type(error).__name__}, status)
