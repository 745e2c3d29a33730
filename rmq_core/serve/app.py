"""The application of `rmq serve`: the console at `/`, the login page, and the routes for programs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from rmq_core.connection.settings import RedisSettings
from rmq_core.console import Host, ServedPlace, Words, answer_errors, create_app
from rmq_core.errors import ConfigurationError
from rmq_core.serve.access import AnyoneHere, ByProxy, ByToken, Proxies, Recognition, ServeAccess
from rmq_core.serve.audit_lines import AuditLines
from rmq_core.serve.consumer_settings import ConsumerSettings
from rmq_core.serve.guard import Guard
from rmq_core.serve.links import Links
from rmq_core.serve.login import login_routes
from rmq_core.serve.own_loop import OnItsOwnLoop
from rmq_core.serve.probes import for_users, open_to_all
from rmq_core.serve.rate_limit import FailedTries
from rmq_core.serve.reading import QueueReader
from rmq_core.serve.scrapes import Scrapes
from rmq_core.serve.tokens import TokenFile

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
    settings: Sequence[str] = field(default=())

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
    settings = ConsumerSettings(options.settings)
    audit, links = AuditLines(options.audit), Links(options.links)
    host = Host(access, OneServer(redis), audit, links.holder_of, words, config=settings.of)
    reader = QueueReader(replace(redis, socket_timeout=READING_S), settings)
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
