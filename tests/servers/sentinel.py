"""Sentinels: processes that watch a primary, tell clients its address, and promote a replica when it is gone."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import redis

from tests.servers.matrix import command
from tests.servers.process import DIES_WITH_US, START_S, Server, free_port, start_server, until

SERVICE = "main"
DOWN_MS, CALM_MS = 500, 600_000
"""How long a server may be silent before it counts as down: in a failover, and before and after it."""
PATIENCE_S = 300


class Sentinel:
    """One sentinel on a free port; `lines` is its configuration."""

    def __init__(self, name: str, lines: Sequence[str], port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="rmq-sentinel-"))
        path = self.folder / "sentinel.conf"
        path.write_text("\n".join([f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", *lines]))
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen([*DIES_WITH_US, *command(name), str(path), "--sentinel"], stdout=log)
        until(self._answers, START_S)

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, decode_responses=True)

    def close(self) -> None:
        """Stop it; do nothing when it has stopped already."""
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        with redis.Redis(port=self.port, retry=None) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False


class Trio:
    """Three sentinels that decide by majority, a primary and two replicas of it: `url`, `primary`, `replicas`."""

    def __init__(self, name: str) -> None:
        self._ends = ExitStack()
        try:
            self.primary = self._server(name)
            self.replicas = [self._server(name, "--replicaof", "127.0.0.1", str(self.primary.port)) for _ in range(2)]
            with self.primary.client() as client:
                until(lambda: client.wait(2, 100) == 2, START_S)
            self.sentinels = self._watch(name)
            until(self._ready, START_S)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The URL at which clients learn which server is the primary."""
        return f"sentinel://{','.join(f'127.0.0.1:{sentinel.port}' for sentinel in self.sentinels)}/{SERVICE}"

    def lock_out(self) -> None:
        """Stop replication: all replicas have the same data, and the primary continues alone.

        The replicas log in as a user that is disabled while writes are paused. Sentinels still see all three servers.
        """
        with self.primary.client() as client:
            client.client_pause(START_S * 1000, all=False)
            until(lambda: len({_offset(server) for server in (self.primary, *self.replicas)}) == 1, START_S)
            client.acl_setuser("replica", enabled=False)
            client.execute_command("CLIENT KILL", "TYPE", "replica")
            client.client_unpause()

    def promoted(self) -> Server:
        """Return the server that the sentinels promote after the death of the primary; it is `primary` from here on.

        The sentinels treat a short silence as a failure only until each of them knows the new primary: afterwards a
        machine that is slow for a moment must not count as failed.
        """
        old = self.primary.port
        for sentinel in self.sentinels:
            _be_patient(sentinel, DOWN_MS)
        until(lambda: all(self._switched(sentinel, old) for sentinel in self.sentinels), PATIENCE_S)
        until(lambda: len({_address(sentinel) for sentinel in self.sentinels}) == 1, PATIENCE_S)
        new = _address(self.sentinels[0])
        servers = [self.primary, *self.replicas]
        self.primary = next(server for server in servers if server.port == new)
        self.replicas = [server for server in servers if server.port not in {old, new}]
        return self.primary

    def _switched(self, sentinel: Sentinel, old: int) -> bool:
        if _address(sentinel) == old:
            return False
        _be_patient(sentinel, CALM_MS)
        return True

    def close(self) -> None:
        """Stop all of them."""
        self._ends.close()

    def _server(self, name: str, *args: str) -> Server:
        login = ["--masteruser", "replica", "--masterauth", "replica", "--repl-diskless-sync-delay", "0"]
        server = start_server(
            name, *login, "--user", "replica", "on", ">replica", "+psync", "+replconf", "+ping", *args
        )
        self._ends.callback(server.stop)
        return server

    def _watch(self, name: str) -> list[Sentinel]:
        ports, ids = [free_port() for _ in range(3)], [secrets.token_hex(20) for _ in range(3)]
        sentinels = []
        for mine in range(3):
            others = [
                f"sentinel known-sentinel {SERVICE} 127.0.0.1 {ports[number]} {ids[number]}"
                for number in range(3)
                if number != mine
            ]
            lines = [f"sentinel myid {ids[mine]}", *monitoring(self.primary.port, 2, CALM_MS), *others]
            sentinels.append(Sentinel(name, lines, ports[mine]))
            self._ends.callback(sentinels[-1].close)
        return sentinels

    def _ready(self) -> bool:
        return all(_knows(sentinel, sentinels=2, replicas=2) for sentinel in self.sentinels)


def monitoring(port: int, quorum: int, down_ms: int) -> list[str]:
    """Return the lines of a sentinel's configuration with which it watches a primary."""
    return [
        f"sentinel monitor {SERVICE} 127.0.0.1 {port} {quorum}",
        f"sentinel down-after-milliseconds {SERVICE} {down_ms}",
        f"sentinel failover-timeout {SERVICE} 10000",
    ]


def _knows(sentinel: Sentinel, *, sentinels: int, replicas: int) -> bool:
    with sentinel.client() as client:
        state = client.sentinel_master(SERVICE)
        return bool(state["num-other-sentinels"] == sentinels and state["num-slaves"] == replicas)


def _be_patient(sentinel: Sentinel, down_ms: int) -> None:
    with sentinel.client() as client:
        client.execute_command("SENTINEL SET", SERVICE, "down-after-milliseconds", down_ms)


def _address(sentinel: Sentinel) -> int:
    with sentinel.client() as client:
        return int(client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)[1])


def _offset(server: Server) -> int:
    with server.client() as client:
        info = client.info("replication")
        return int(info["master_repl_offset"] if info["role"] == "master" else info["slave_repl_offset"])
