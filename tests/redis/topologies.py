"""Ways to set Redis up: alone, behind TLS, watched by a sentinel, as a cluster. Each asks for a user and a password.

The default user may only ping, so whatever works has authenticated. TLS servers ask clients for a certificate too.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.crc import key_slot

from tests.servers import Server, start_server
from tests.servers.matrix import command
from tests.servers.process import DIES_WITH_US, _free_port

NAME = "7.0"
USER, PASSWORD = "canary-user", "canary-p@ss/w:rd"
WATCHER, WATCHWORD = "canary-watcher", "canary-watchword"
KEY = "{tests}:key"
ACL = ["--user", "default", "reset", "on", "nopass", "+ping"]
ACL += ["--user", USER, "on", f">{PASSWORD}", "~*", "&*", "+@all"]


@dataclass
class Topology:
    """The URL (without credentials) and the options that lead to `KEY`, and its server, before any replica."""

    url: str
    servers: list[Server]
    options: dict[str, str] = field(default_factory=dict)


class Certificates:
    """A certificate authority, a certificate for 127.0.0.1 (and no other name), and another authority."""

    def __init__(self, folder: Path) -> None:
        self.ca, self.stranger = self._authority(folder, "ca"), self._authority(folder, "stranger")
        self.key, self.cert = folder / "server.key", folder / "server.pem"
        _openssl("req", "-x509", *_new_key(self.key), "-out", self.cert, "-subj", "/CN=redis", "-CA", self.ca,
                 "-CAkey", self.ca.with_suffix(".key"), "-addext", "subjectAltName=IP:127.0.0.1")  # fmt: skip

    @staticmethod
    def _authority(folder: Path, name: str) -> Path:
        cert = folder / f"{name}.pem"
        _openssl("req", "-x509", *_new_key(cert.with_suffix(".key")), "-out", cert, "-subj", f"/CN={name}")
        return cert

    @property
    def for_clients(self) -> dict[str, str]:
        """The options of a client that trusts us and that we trust."""
        return {"ssl_ca_certs": str(self.ca), "ssl_certfile": str(self.cert), "ssl_keyfile": str(self.key)}

    def for_servers(self, port: int) -> list[str]:
        """The arguments of a server that listens with TLS on `port`."""
        files = ["--tls-cert-file", self.cert, "--tls-key-file", self.key, "--tls-ca-cert-file", self.ca]
        return ["--tls-port", str(port), *map(str, files)]


def _new_key(path: Path) -> list[str | Path]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "1", "-keyout", path]


def _openssl(*args: str | Path) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True)


@contextmanager
def running(*args: str) -> Iterator[Server]:
    server = start_server(NAME, *ACL, *args)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def alone(_: Certificates) -> Iterator[Topology]:
    with running() as server:
        yield Topology(server.url, [server])


@contextmanager
def unix(_: Certificates) -> Iterator[Topology]:
    with running() as server:
        yield Topology(server.unix_url, [server])


@contextmanager
def tls(certificates: Certificates) -> Iterator[Topology]:
    port = _free_port()
    with running(*certificates.for_servers(port)) as server:
        yield Topology(f"rediss://127.0.0.1:{port}/0", [server], certificates.for_clients)


@contextmanager
def sentinel(_: Certificates) -> Iterator[Topology]:
    with ExitStack() as stack:
        master, replica = replicated(stack)
        port = stack.enter_context(watching(master.port))
        yield Topology(f"sentinel://127.0.0.1:{_free_port()},127.0.0.1:{port}/main", [master, replica], watcher())


@contextmanager
def sentinel_tls(certificates: Certificates) -> Iterator[Topology]:
    port, watched = _free_port(), _free_port()
    options = certificates.for_servers(port)
    with running(*options) as master:
        config = [f"{name.removeprefix('--')} {value}" for name, value in pairs(certificates.for_servers(watched))]
        with watching(port, *config, "tls-replication yes"):
            url = f"sentinel://127.0.0.1:{watched}/main?tls=true"
            yield Topology(url, [master], watcher() | certificates.for_clients)


@contextmanager
def cluster(_: Certificates) -> Iterator[Topology]:
    with clustered(list) as servers:
        nodes = ",".join(f"127.0.0.1:{server.port}" for server in servers)
        yield Topology(f"redis+cluster://{nodes}", [holder(servers)])


@contextmanager
def cluster_tls(certificates: Certificates) -> Iterator[Topology]:
    ports: list[int] = []

    def options() -> list[str]:
        ports.append(_free_port())
        return [*certificates.for_servers(ports[-1]), "--tls-cluster", "yes"]

    with clustered(options, ports) as servers:
        yield Topology(f"redis+cluster://127.0.0.1:{ports[0]}?tls=true", [holder(servers)], certificates.for_clients)


def holder(servers: list[Server]) -> Server:
    slot = key_slot(KEY.encode())
    return next(server for number, server in enumerate(servers) if slot in slots_of(number))


def slots_of(number: int) -> range:
    """The slots of the first, second or third master of a cluster."""
    return range(16384 * number // 3, 16384 * (number + 1) // 3)


def replicated(stack: ExitStack) -> tuple[Server, Server]:
    link = ["--masteruser", USER, "--masterauth", PASSWORD, "--repl-diskless-sync-delay", "0"]
    master = stack.enter_context(running(*link))
    replica = stack.enter_context(running(*link, "--replicaof", "127.0.0.1", str(master.port)))
    return master, replica


def watcher() -> dict[str, str]:
    return {"sentinel_username": WATCHER, "sentinel_password": WATCHWORD}


def pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    return zip(words[::2], words[1::2], strict=True)


@contextmanager
def watching(master_port: int, *config: str) -> Iterator[int]:
    """A sentinel with users of its own; yields its port."""
    port = _free_port()
    lines = [
        f"port {port}",
        "bind 127.0.0.1",
        *config,
        f"user {WATCHER} on >{WATCHWORD} ~* &* +@all",
        "user default reset on nopass +ping",
        f"sentinel monitor main 127.0.0.1 {master_port} 1",
        f"sentinel auth-user main {USER}",
        f"sentinel auth-pass main {PASSWORD}",
        "sentinel down-after-milliseconds main 60000",
    ]
    with running() as home:  # for a folder that goes away with it
        path = home.folder / "sentinel.conf"
        path.write_text("\n".join(lines))
        with (home.folder / "sentinel.log").open("wb") as log:
            process = subprocess.Popen([*DIES_WITH_US, *command(NAME), str(path), "--sentinel"], stdout=log)
        try:
            wait_for(lambda: pings(port))
            yield port
        finally:
            process.terminate()
            process.wait()


@contextmanager
def clustered(options: Callable[[], list[str]], meeting_ports: list[int] | None = None) -> Iterator[list[Server]]:
    """Three masters that share the slots, known to each other by their TLS ports if they have some."""
    common = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
    with ExitStack() as stack:
        buses = [_free_port() for _ in range(3)]
        servers = [stack.enter_context(running(*common, "--cluster-port", str(bus), *options())) for bus in buses]
        clients = [stack.enter_context(server.client(username=USER, password=PASSWORD)) for server in servers]
        ports = meeting_ports or [server.port for server in servers]
        for number, client in enumerate(clients):
            client.execute_command("CLUSTER ADDSLOTSRANGE", slots_of(number)[0], slots_of(number)[-1])
            clients[0].execute_command("CLUSTER MEET", "127.0.0.1", ports[number], buses[number])
        wait_for(lambda: all(client.cluster("INFO")["cluster_state"] == "ok" for client in clients))
        yield servers


def pings(port: int) -> bool:
    with redis.Redis(port=port, retry=None) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


TOPOLOGIES = {
    "alone": alone,
    "unix": unix,
    "tls": tls,
    "sentinel": sentinel,
    "sentinel+tls": sentinel_tls,
    "cluster": cluster,
    "cluster+tls": cluster_tls,
}
