"""What every request passes first, and how long the server waits for a client that holds up a request, or a reply.

Law: who sends nothing, or half a request, takes no place from others. When all places are taken, the connection gives
way that has waited longest for a whole request: a limit alone would keep everybody out. Connections in excess, for
which none gives way, get answers of the probes alone.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from fastapi import FastAPI, HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 15.0
"""How long a client may take to send a request, headers and body, from the connection or the last reply on."""
READ_S = 60.0
"""How long a client may read nothing of a reply that waits for it."""
MOST = 200
"""Connections that are answered."""
PROBE_CONNECTIONS = 20
"""Connections in excess of them, which are answered on the probes."""
IN_EXCESS = "in_excess"
"""In the state of a request: its connection is in excess."""


class Patient(H11Protocol):
    """uvicorn's protocol with these limits; uvicorn itself limits only the time between two requests."""

    connections: set[Patient]  # type: ignore[assignment]  # uvicorn makes each of this class

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.since, self.in_excess = 0.0, False
        self._requested: asyncio.TimerHandle | None = None
        self._read: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether the next request is not there, or not whole."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def connection_made(self, transport: Any) -> None:
        """Take a place, and wait for the first request."""
        super().connection_made(transport)
        self._take_place()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        _stop(self._requested, self._read)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop the clock when the request is whole; what trickles in does not set it back."""
        super().data_received(data)
        if not self.waits:
            _stop(self._requested)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the client to take the end of the last reply."""
        super().on_response_complete()
        if self.waits or self.transport.is_closing():
            self._await_request()

    def pause_writing(self) -> None:
        """Abort the connection unless the client reads the data sent so far within `READ_S`."""
        super().pause_writing()
        self._read = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the clock: the client reads."""
        _stop(self._read)
        super().resume_writing()

    def _await_request(self) -> None:
        _stop(self._requested)
        self.since = self.loop.time()
        self._requested = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _take_place(self) -> None:
        """Take a place, if need be that of the connection that has waited longest; close if there is none."""
        for excess, places in ((False, MOST), (True, PROBE_CONNECTIONS)):
            taken = [each for each in self.connections if each is not self and each.in_excess is excess]
            waiting = [each for each in taken if each.waits]
            if len(taken) >= places and waiting:
                longest = min(waiting, key=lambda each: each.since)
                self.connections.discard(longest)  # at once: `connection_lost` comes later
                longest.transport.abort()
            elif len(taken) >= places:
                continue
            self.in_excess = excess
            self.app_state = {**self.app_state, IN_EXCESS: excess}
            return
        self.transport.abort()


def _stop(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()


LARGEST_BODY = 8 << 20
TOO_LARGE = "the request is too large"
BUSY = "the server has as many requests as it answers at a time"
REFUSED = {"Retry-After": "1", "Connection": "close"}  # the next connection may find a place
PROBE_PATHS = ("/healthz", "/readyz")
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
        if scope["state"].get(IN_EXCESS) and scope["path"] not in PROBE_PATHS:
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
