"""A TCP proxy that parses commands and can cut connections, so that a fault hits exactly the intended command.

It sends commands to the server one by one, each after the reply to the previous one: a test then knows exactly which
commands of a pipeline had run when its connection broke. Connection set-up is passed through and never counted.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Self

import hiredis

from tests.faults import tally

SET_UP = {b"AUTH", b"CLIENT", b"HELLO", b"PING", b"SELECT"}
PATIENCE_S = 300


class Fault(StrEnum):
    """What happens to a command; the connection breaks each time."""

    REPLY_LOST = "reply lost after the command ran"
    REQUEST_LOST = "request lost"
    REQUEST_LATE = "request arrives after its resend was answered"


class Proxy:
    """Listens on `url` and forwards to the server on port `target`, unless `cut` defines a fault."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.commands: list[bytes] = []
        self.late: list[list[bytes]] = []
        self.hit = 0
        self.meanwhile: Callable[[], object] | None = None
        self._fault: Fault | None = None
        self._countdown = 0
        self._lock = threading.Lock()
        self._gathered = threading.Event()
        self._gathered.set()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def url(self) -> str:
        """The URL to which clients connect."""
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def cut(self, fault: Fault | None = None, at: int = 0, meanwhile: Callable[[], object] | None = None) -> None:
        """Let the fault hit the command number `at` from now on, once; forget the commands seen before.

        `meanwhile` runs when the fault has happened and before the client can notice.
        """
        with self._lock:
            self._fault, self._countdown, self.meanwhile = fault, at, meanwhile
            self.commands, self.late, self.hit = [], [], 0

    def point(self, target: int) -> None:
        """Forward to another server from now on, as after a failover: every connection breaks."""
        self.target = target
        self.break_all()

    def cut_all(self) -> None:
        """Break every connection, and count it as a fault."""
        tally.count("connection broken under load", len(self._open) // 2)
        self.break_all()

    def break_all(self) -> None:
        """Break every connection."""
        for connection in list(self._open):
            _shut(connection)

    def deliver_late(self, which: Callable[[list[bytes]], bool] = bool) -> list[Any]:
        """Deliver the withheld requests, or `which` of them; return their replies."""
        assert self._gathered.wait(PATIENCE_S), "the client never closed the connection it gave up"
        with socket.create_connection(("127.0.0.1", self.target)) as server:
            reader = hiredis.Reader()
            late, self.late = self.late, []
            return [_exchange(server, command, reader) for command in late if which(command)]

    def close(self) -> None:
        """Stop listening and break every connection."""
        _shut(self._listener)
        self._listener.close()
        self.break_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="proxy", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.target)) as server:
            self._open |= {client, server}
            try:
                self._forward(client, server)
            finally:
                self._open -= {client, server}

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        commands, begun = _commands(client), list[list[bytes]]()
        for command in commands:
            fault = self._befalls(command)
            if fault in {Fault.REQUEST_LATE, Fault.REQUEST_LOST} and self.meanwhile:
                self.meanwhile()
            if fault == Fault.REQUEST_LATE:
                self._gathered.clear()
                client.shutdown(socket.SHUT_WR)  # the client times out; what it had written still arrives later
                self.late += [*begun, command, *commands]  # the server still has the transaction that it began
                self._gathered.set()
                return
            if fault == Fault.REQUEST_LOST:
                return
            server.sendall(_packed(command))
            begun = [] if command[0] == b"EXEC" else [*begun, command] if begun or command[0] == b"MULTI" else begun
            reply = _raw_reply(server, client)
            if fault == Fault.REPLY_LOST and self.meanwhile:
                self.meanwhile()
            if fault == Fault.REPLY_LOST or not reply:
                return
            client.sendall(reply)

    def _befalls(self, command: list[bytes]) -> Fault | None:
        if command[0].upper() in SET_UP:
            return None
        with self._lock:
            self.commands.append(command[0])
            if self._fault is None or len(self.commands) != self._countdown + 1:
                return None
            self.hit += 1
            fault, self._fault = self._fault, None
        tally.count(fault)
        return fault


def _commands(client: socket.socket) -> Iterator[list[bytes]]:
    reader = hiredis.Reader()
    while data := client.recv(1 << 16):
        reader.feed(data)
        while (command := reader.gets()) is not False:
            yield command


def _packed(command: list[bytes]) -> bytes:
    packed: bytes = hiredis.pack_command(tuple(command))
    return packed


def _raw_reply(server: socket.socket, client: socket.socket) -> bytes:
    """Return the bytes of one reply; empty when either side has closed the connection."""
    reader, raw = hiredis.Reader(), b""
    while True:
        while not select.select([server], [], [], 0.05)[0]:
            if _gone(client):
                return b""
        data = server.recv(1 << 16)
        raw += data
        reader.feed(data)
        if not data:
            return b""
        if reader.gets() is not False:
            return raw


def _gone(client: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        return client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    return False


def _exchange(server: socket.socket, command: list[bytes], reader: hiredis.Reader) -> Any:
    server.settimeout(PATIENCE_S)
    server.sendall(_packed(command))
    while (reply := reader.gets()) is False:
        data = server.recv(1 << 16)
        assert data, "the server hung up on a late request"
        reader.feed(data)
    return reply


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
