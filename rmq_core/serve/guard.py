"""What every request passes first: limits of number and size, the address of its peer, headers for every answer."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from rmq_core.serve.patience import IN_EXCESS

LARGEST_BODY = 8 << 20
TOO_LARGE = "the request is too large"
BUSY = "the server has as many requests as it answers at a time"
REFUSED = {"Retry-After": "1", "Connection": "close"}  # the next connection may find a place
PROBES = ("/healthz", "/readyz")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Wrap an application. `proxies`: whose headers about the original client are believed."""

    def __init__(self, app: FastAPI, proxies: list[str]) -> None:
        self.app = app
        self._app: Any = ProxyHeadersMiddleware(app, trusted_hosts=proxies) if proxies else app  # type: ignore[arg-type]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or pass on an event of the lifespan."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["peer"] = (scope.get("client") or ("",))[0]
        answer = _Answer(receive, send)
        if scope["state"].get(IN_EXCESS) and scope["path"] not in PROBES:
            await JSONResponse({"detail": BUSY}, 503, REFUSED)(scope, receive, answer.send)
            return
        if _length(scope) > LARGEST_BODY:
            await JSONResponse({"detail": TOO_LARGE}, 413)(scope, receive, answer.send)
            return
        await self._app(scope, answer.receive, answer.send)


def _length(scope: Any) -> int:
    """Return the length that a request announces; 0 if it announces none, as a request in chunks does."""
    announced = Headers(scope=scope).get("content-length", "")
    return int(announced) if announced.isdecimal() else 0


class _Answer:
    def __init__(self, receive: Any, send: Any) -> None:
        self._receive, self._send = receive, send
        self._received = 0

    async def receive(self) -> Any:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        if self._received > LARGEST_BODY:
            raise HTTPException(413, TOO_LARGE)
        return message

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)
