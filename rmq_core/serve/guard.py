"""What every request passes first: a limit for its body, the address of its peer, headers for every answer."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import MutableHeaders
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

LARGEST_BODY = 8 << 20
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class BodyTooLarge(Exception):
    """The body of a request exceeds the limit."""


class Guard:
    """Wrap an application. `proxies`: whose headers about the original client are believed."""

    def __init__(self, app: Any, proxies: list[str]) -> None:
        self._app = ProxyHeadersMiddleware(app, trusted_hosts=proxies) if proxies else app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or pass on an event of the lifespan."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["peer"] = (scope.get("client") or ("",))[0]
        answer = _Answer(receive, send)
        try:
            await self._app(scope, answer.receive, answer.send)
        except BodyTooLarge:
            await answer.refuse()


class _Answer:
    def __init__(self, receive: Any, send: Any) -> None:
        self._receive, self._send = receive, send
        self._received, self._begun = 0, False

    async def receive(self) -> Any:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        if self._received > LARGEST_BODY:
            raise BodyTooLarge
        return message

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self) -> None:
        if self._begun:
            return
        body = b'{"detail": "the request is too large"}'
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": 413, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
