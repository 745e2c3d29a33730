"""`rmq serve` in this process, asked without a port, and as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from rmq_console.serve.access import make
from rmq_console.serve.app import ServeOptions, application
from rmq_core import LeasedConfig, LeasedQueue, RedisSettings
from tests.servers import start_server
from tests.servers.process import DIES_WITH_US, Server

QUEUE = "work"
FROM_PAGE = {"X-RMQ-Request": "page"}
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="package")
def shared_redis() -> Iterator[Server]:
    server = start_server("7.0")
    yield server
    server.stop()


@pytest.fixture
def redis_server(shared_redis: Server) -> Server:
    """A server whose database is empty."""
    with shared_redis.client() as client:
        client.flushall()
    return shared_redis


@pytest.fixture
def queue(redis_server: Server) -> Iterator[LeasedQueue]:
    with LeasedQueue(redis_server.url, QUEUE, LeasedConfig(max_deliveries=1)) as opened:
        yield opened


class Served:
    """The application with some options, and clients for it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.tokens = folder / "tokens"
        self.audit = folder / "audit.jsonl"
        self._apps: list[tuple[Any, list[httpx.AsyncClient]]] = []

    def token(self, role: str, name: str = "") -> str:
        """Add a token to the file and return it."""
        token, line = make(role, name or role)
        with self.tokens.open("a") as file:
            file.write(f"{line}\n")
        return token

    def app(self, **options: Any) -> Any:
        """Return the application; with `host="0.0.0.0"` it wants tokens."""
        about = {"redis": RedisSettings.from_url(self.url), "audit": self.audit, **options}
        if about.get("host") and "user_header" not in about:
            about["tokens"] = self.tokens
        made = application(ServeOptions(**about))
        self._apps.append((made, []))
        return made

    def client(self, app: Any = None, token: str = "", address: str = "192.0.2.7", **headers: str) -> httpx.AsyncClient:
        """Return a client of an application; without one, of a server for this machine."""
        app = self.app(allow_changes=True) if app is None else app
        given = {"Authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(app, client=(address, 4711))
        made = httpx.AsyncClient(transport=transport, base_url="http://localhost:8484", headers={**given, **headers})
        next(clients for each, clients in self._apps if each is app).append(made)
        return made

    def audited(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()]

    async def close(self) -> None:
        for app, clients in self._apps:
            for client in clients:
                await client.aclose()
            async with app.app.router.lifespan_context(app.app):
                pass


@pytest.fixture
async def served(tmp_path: Path, redis_server: Server) -> AsyncIterator[Served]:
    made = Served(tmp_path, redis_server.url)
    yield made
    await made.close()


@contextmanager
def serving(url: str, *options: str) -> Iterator[str]:
    """Run `rmq serve` as a process for the duration of the block; yield its address."""
    words = [sys.executable, "-m", "rmq_cli", "serve", "--url", url, "--port", "0", *options]
    process = subprocess.Popen([*DIES_WITH_US, *words], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stderr is not None
    with process.stderr as said:
        yield said.readline().split()[0].rstrip("/")
        process.terminate()
        assert process.wait(20) == 0


@pytest.fixture
def started(redis_server: Server) -> Iterator[Callable[..., str]]:
    """Start `rmq serve` as a process: `started("--allow-changes")` returns its address."""
    with ExitStack() as running:
        yield lambda *options: running.enter_context(serving(redis_server.url, *options))
