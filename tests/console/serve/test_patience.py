"""Clients that hold connections: they send half a request, or nothing, or do not read what they asked for."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse, StreamingResponse

from rmq_console.serve import guard
from rmq_console.serve.guard import Guard, Patient
from tests.servers.process import until

PATIENCE_S = 30
HALVES = {
    "nothing": b"",
    "headers": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Half: ",
    "body": b"POST /login HTTP/1.1\r\nHost: localhost\r\nX-RMQ-Request: page\r\nContent-Length: 100\r\n\r\n{",
    "second": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\n",
}


class Application:
    """Answers every request: /slow and /readyz when `over` is set, /endless until the connection ends."""

    def __init__(self) -> None:
        self.over, self.ended, self.running = threading.Event(), threading.Event(), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        while (await receive()).get("more_body"):
            pass
        self.running += 1
        if scope["path"] in {"/slow", "/readyz"}:
            await asyncio.to_thread(self.over.wait, PATIENCE_S)
        if scope["path"] == "/endless":
            await StreamingResponse(itertools.repeat(b"x" * 65536))(scope, receive, send)
            self.ended.set()
            return
        await PlainTextResponse("done")(scope, receive, send)


@pytest.fixture
def app() -> Application:
    return Application()


@pytest.fixture
def place(app: Application) -> Iterator[tuple[str, int]]:
    """The address of a server with the application."""
    config = uvicorn.Config(Guard(app, []), port=0, log_level="error", http=Patient, ws="none", lifespan="off")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, PATIENCE_S)
    yield server.servers[0].sockets[0].getsockname()
    app.over.set()
    server.should_exit = True
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@contextmanager
def connections(place: tuple[str, int], sent: bytes, many: int) -> Iterator[list[socket.socket]]:
    """Open connections, and send the same on each."""
    made = [socket.create_connection(place, PATIENCE_S) for _ in range(many)]
    try:
        for each in made:
            each.sendall(sent)
        yield made
    finally:
        for each in made:
            each.close()


def is_closed(connection: socket.socket) -> bool:
    """Send a byte more, and return whether the server has closed the connection."""
    connection.setblocking(False)
    try:
        connection.send(b"a")
        while connection.recv(1 << 20):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def test_who_holds_connections_takes_no_place_from_others(started: Callable[..., str]) -> None:
    url = started()
    address = urlsplit(url)
    with ExitStack() as stack:
        for half in HALVES.values():
            place = (str(address.hostname), int(address.port or 0))
            stack.enter_context(connections(place, half, guard.MOST // 2))
        for path in ("/healthz", "/readyz", "/metrics", "/"):
            assert httpx.get(f"{url}{path}", timeout=PATIENCE_S).status_code == 200


@pytest.mark.parametrize("half", HALVES)
def test_half_a_request_is_not_waited_for_even_if_a_byte_comes_now_and_then(
    place: tuple[str, int], half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "REQUEST_S", 0.5)
    with connections(place, HALVES[half], 3) as held:
        until(lambda: all(map(is_closed, held)), PATIENCE_S)


def test_a_reply_that_is_not_read_is_given_up(
    place: tuple[str, int], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "READ_S", 0.5)
    with connections(place, b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n", 1):
        assert app.ended.wait(PATIENCE_S)


def test_when_all_places_work_some_probes_are_answered_and_others_hear_why_not(
    place: tuple[str, int], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST", 3)
    monkeypatch.setattr(guard, "PROBE_CONNECTIONS", 2)
    url = "http://{}:{}".format(*place)
    with connections(place, b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n", 3) as working:
        until(lambda: app.running == 3, PATIENCE_S)
        with httpx.Client(timeout=PATIENCE_S) as probe, httpx.Client(timeout=PATIENCE_S) as other:
            assert probe.get(f"{url}/healthz").status_code == 200
            refused = other.get(f"{url}/metrics")
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert probe.get(f"{url}/healthz").status_code == 200
        with connections(place, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", 2):
            until(lambda: app.running == 7, PATIENCE_S)
            with connections(place, b"", 1) as (excess,):
                until(lambda: is_closed(excess), PATIENCE_S)
        app.over.set()
        assert [b"200" in each.recv(4096) for each in working] == [True] * 3
