"""The application of `rmq serve`, its second event loop, and the server that runs it.

A request of a page, such as a search in a thousand messages, keeps the processor busy. On the server's loop, probes
and metrics would wait for it, and a thread for each request would leave them a small share of Python's lock. So pages
have a loop and a thread of their own.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from rmq_console import Host, ServedPlace, Words, answer_errors, create_app
from rmq_console.serve.access import (
    AnyoneHere,
    ByProxy,
    ByToken,
    Proxies,
    Recognition,
    ServeAccess,
    TokenFile,
    login_routes,
)
from rmq_console.serve.audit_lines import AuditLines
from rmq_console.serve.guard import Guard, Patient
from rmq_console.serve.links import Links
from rmq_console.serve.metrics import Scrapes
from rmq_console.serve.probes import for_users, open_to_all
from rmq_console.serve.rate_limit import FailedTries
from rmq_console.serve.reading import QueueReader
from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import ConfigurationError

Channel = Callable[..., Awaitable[Any]]


class OnItsOwnLoop:
    """An ASGI application that passes requests to another. Its thread starts with the first of them."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._made: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Any, receive: Channel, send: Channel) -> None:
        """Answer a request."""
        here = asyncio.get_running_loop()
        answer = self.app(scope, _on(here, receive), _on(here, send))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer, self._loop()))

    def close(self) -> None:
        """End the thread, when all requests have been answered."""
        if self._made is not None:
            self._made.call_soon_threadsafe(self._made.stop)

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._made is None:
            self._made = asyncio.new_event_loop()
            threading.Thread(target=_run, args=[self._made], name="rmq console", daemon=True).start()
        return self._made


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _on(loop: asyncio.AbstractEventLoop, call: Channel) -> Channel:
    """Return a function that calls another on that loop."""

    async def there(*given: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(*given), loop))  # type: ignore[arg-type]

    return there


PLACE = "redis"
PATIENCE_S = 2.0
READING_S = 10.0
"""How long Redis may take for a reply about many queues; a busy machine is late to see the reply."""
LOOPBACK = ("127.0.0.1", "::1")
WORDS = Words(
    server="The server `rmq serve`",
    no_numbers="your token gives no right to see numbers",
    no_messages="your token has the role `numbers`; to see messages, you need one with the role `view`",
    no_change="changes need a token, or a user, with the role `change`, and a server started with --allow-changes",
    foreign="changes are accepted only from the console's own page",
    hidden="",
    nothing=("", ""),
    publish=(
        "A queue appears here when its first message is published. Publish one from a shell:",
        "rmq publish work 'hello'",
    ),
)


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What `rmq serve` is given; each field is the option of its name. Raises ConfigurationError."""

    redis: RedisSettings
    host: str = "127.0.0.1"
    tokens: Path | None = None
    user_header: str = ""
    change_users: Sequence[str] = ()
    proxies: Sequence[str] = ()
    allow_changes: bool = False
    audit: Path | None = None
    links: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.tokens is not None and self.user_header:
            raise ConfigurationError("--tokens, --user-header: give one of them")
        if self.change_users and not self.user_header:
            raise ConfigurationError("--change-users: it names users of --user-header; with --tokens, roles are there")
        if not (self.is_local or self.tokens or self.user_header):
            raise ConfigurationError(
                f"--host {self.host}: other machines can reach this address. Give --tokens FILE, for which `rmq token` "
                "makes tokens, or --user-header NAME behind a proxy that logs users in, or listen on 127.0.0.1"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        return self.host in {*LOOPBACK, "localhost"}


class OneServer:
    """The Redis of `--url`, as the only place of the console."""

    def __init__(self, redis: RedisSettings) -> None:
        self._redis = redis

    def known(self) -> list[ServedPlace]:
        """Return the one place."""
        return [ServedPlace(PLACE, "--url")]

    def settings(self, place: str) -> RedisSettings:
        """Return the settings of the one place."""
        if place != PLACE:
            raise LookupError(f"there is no connection {place!r}; this server has the connection {PLACE!r}")
        return self._redis


def application(options: ServeOptions) -> Guard:
    """Return the ASGI application. Raises ConfigurationError."""
    recognition = _recognition(options)
    access = ServeAccess(recognition, allow_changes=options.allow_changes)
    by_token = isinstance(recognition, ByToken)
    words = replace(WORDS, logout="logout" if by_token else "")
    redis = replace(
        options.redis, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S, client_name="rmq-serve"
    )
    audit, links = AuditLines(options.audit), Links(options.links)
    host = Host(access, OneServer(redis), audit, links.holder_of, words)
    reader = QueueReader(replace(redis, socket_timeout=READING_S))
    scrapes, console = Scrapes(reader.all), OnItsOwnLoop(create_app(host))
    closing = _closing(console, scrapes, reader)
    app = FastAPI(title="RMQ", docs_url=None, redoc_url=None, openapi_url=None, lifespan=closing)
    app.state.host, app.state.reader, app.state.scrapes = host, reader, scrapes
    answer_errors(app)
    routers = (open_to_all, for_users, *((login_routes(recognition),) if isinstance(recognition, ByToken) else ()))
    for router in routers:
        app.include_router(router)
    app.mount("/", console)
    return Guard(app, list(options.proxies))


def _recognition(options: ServeOptions) -> Recognition:
    if options.tokens is not None:
        return ByToken(TokenFile(options.tokens), FailedTries())
    if options.user_header:
        return ByProxy(options.user_header, Proxies(options.proxies or LOOPBACK), options.change_users)
    return AnyoneHere()


def _closing(console: OnItsOwnLoop, *parts: Scrapes | QueueReader) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            console.close()
            for part in parts:
                await part.close()

    return lifespan


STOP_S = 5


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises ConfigurationError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ConfigurationError(f"--host, --port: cannot listen on {host}, port {port}: {error}") from error


def serve(options: ServeOptions, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress have five seconds to finish."""
    config = uvicorn.Config(
        application(options),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # Guard reads them, and only those of --proxy
        http=Patient,
        ws="none",
        timeout_graceful_shutdown=STOP_S,
    )
    _Quiet(config).run(sockets=[listener])


class _Quiet(uvicorn.Server):
    """Ends normally after a signal, which uvicorn's own server sends to the process again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
