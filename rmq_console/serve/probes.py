"""The routes for programs: metrics for Prometheus, numbers for KEDA, and probes of the process and of Redis."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from rmq_console.host import host_of
from rmq_console.serve.metrics import Scrapes, scaling
from rmq_console.serve.reading import QueueReader
from rmq_core.errors import QueueUnavailable


def _numbers(request: Request) -> None:
    host = host_of(request)
    host.access.identify(request)
    if not host.access.permitted(request.state.user, "", "numbers"):
        raise HTTPException(403, host.words.refusal("numbers"))


def _reader(request: Request) -> QueueReader:
    found: QueueReader = request.app.state.reader
    return found


open_to_all = APIRouter()
for_users = APIRouter(dependencies=[Depends(_numbers)])


@open_to_all.get("/healthz")
async def healthz() -> dict[str, str]:
    """Answer as long as the process lives, whatever Redis does."""
    return {"status": "alive"}


@open_to_all.get("/readyz")
async def readyz(request: Request) -> Response:
    """Answer 200 when Redis answers, else 503."""
    try:
        await _reader(request).ping()
    except QueueUnavailable:
        return JSONResponse({"status": "Redis does not answer"}, 503)
    return JSONResponse({"status": "ready"})


@for_users.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the metrics of all queues; `rmq_up 0` when Redis does not answer."""
    scrapes: Scrapes = request.app.state.scrapes
    body, content_type = await scrapes.answer(request.headers.get("accept", ""))
    return Response(body, media_type=None, headers={"Content-Type": content_type})


@for_users.get("/keda/{queue:path}")
async def keda(request: Request, queue: str) -> dict[str, Any]:
    """Return the numbers of a queue: 404 when it does not exist, 502 when it cannot be read, 503 without Redis."""
    reading = await _reader(request).one(queue)
    if reading.stats is None:
        raise HTTPException(502, reading.error)
    return scaling(reading)
