"""A server process that belongs to the tests: own folder, free port, unix socket, stopped with the tests.

The kernel kills it when the thread that started it ends, so even a killed pytest leaves nothing running; start servers
from a thread that outlives their use.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import redis

from tests.servers.matrix import command, parse_external

T = TypeVar("T")
START_S = 120
"""How long a server may take to start on a busy machine."""
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]


class Server:
    """A running server: `url`, `port`, `socket`, and the faults that can hit it."""

    def __init__(self, name: str, *args: str) -> None:
        self.name = name
        self.args = args
        # A unix socket's path holds about 100 bytes; pytest's own temporary folders are too deep for that.
        self.folder = Path(tempfile.mkdtemp(prefix="rmq-server-"))
        self.socket = self.folder / "redis.sock"
        self.port = free_port()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """The URL for clients over TCP."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """The URL for clients over the unix socket."""
        return f"unix://{self.socket}?db=0"

    def client(self, **options: object) -> redis.Redis:
        """A plain client, for access without the library."""
        return redis.Redis(port=self.port, **options)  # type: ignore[arg-type]

    def _start(self) -> None:
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--unixsocket", str(self.socket)]
        memory = ["--dir", str(self.folder), "--save", "", "--appendonly", "no", "--loglevel", "warning"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*DIES_WITH_US, *command(self.name), *place, *memory, *self.args], stdout=log, stderr=log
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_S
        with self.client(socket_timeout=1, retry=None) as client:
            while not _answers(client):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    message = f"server {self.name} did not start:\n{(self.folder / 'log').read_text()}"
                    raise RuntimeError(message)
                time.sleep(0.01)

    def kill9(self) -> None:
        """Send SIGKILL: data that is not on disk is lost."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Send SIGSTOP: the server stays connected and does not answer."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT after `pause`."""
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start again on the same port and folder, ending the process in an orderly way if it still runs."""
        self._end()
        self._start()

    def stop(self) -> None:
        """Stop it and remove its folder; do nothing when it has been removed already."""
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill9()


@dataclass(frozen=True)
class External:
    """A server of RMQ_TEST_SERVERS: it can be used, and faults never hit it."""

    name: str
    url: str


@contextmanager
def find_server(name: str) -> Iterator[Server | External]:
    """Yield the server `name` of RMQ_TEST_SERVERS, or one of ours, which is stopped at the end of the block."""
    external = parse_external()
    if name in external:
        yield External(name, external[name])
        return
    server = start_server(name)
    try:
        yield server
    finally:
        server.stop()


def start_server(name: str, *args: str) -> Server:
    """Start server `name` (see `NAMES`) with extra `args` in the server's own syntax; the caller stops it."""
    return on_free_ports(lambda: Server(name, *args))


def on_free_ports(start: Callable[[], T]) -> T:
    """Return what `start` returns; call it again when another process took the free port first."""
    for _ in range(4):
        try:
            return start()
        except RuntimeError as error:
            if "Address already in use" not in str(error):
                raise
    return start()


def until(condition: Callable[[], object], seconds: float, pace_s: float = 0.02) -> None:
    """Return once `condition` is true, checking every `pace_s` seconds; fail after more than `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come true within {seconds} s"
        time.sleep(pace_s)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def free_port() -> int:
    """Return a TCP port that is free at this moment, and that the system assigns to no outgoing connection.

    Outgoing connections use ports from 32768 on. A server that is down for a moment must find its port free when it
    comes back.
    """
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
