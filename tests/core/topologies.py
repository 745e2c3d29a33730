"""Ways to set Redis up: alone, behind TLS, watched by a sentinel, as a cluster. Each asks for a user and a password.

The default user may only ping, so a client that does more has authenticated. TLS servers ask for a certificate too.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers import Cluster, Server, start_server
from tests.servers.process import free_port
from tests.servers.sentinel import SERVICE, Sentinel, monitoring

NAME = "7.0"
USER, PASSWORD = "canary-user", "canary-p@ss/w:rd"
LOGIN = {"username": USER, "password": PASSWORD}
WATCHER, WATCHWORD = "canary-watcher", "canary-watchword"
KEY = "{tests}:key"
ACL = ["--user", "default", "reset", "on", "nopass", "+ping"]
ACL += ["--user", USER, "on", f">{PASSWORD}", "~*", "&*", "+@all"]


@dataclass
class Topology:
    """A client's URL (without credentials) and options, and the servers: first that of `KEY`, then any replica."""

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
        """The options of a client that trusts our authority and that the server trusts."""
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
    port = free_port()
    with running(*certificates.for_servers(port)) as server:
        yield Topology(f"rediss://127.0.0.1:{port}/0", [server], certificates.for_clients)


@contextmanager
def sentinel(_: Certificates) -> Iterator[Topology]:
    with ExitStack() as stack:
        master, replica = replicated(stack)
        port = stack.enter_context(watching(master.port))
        yield Topology(f"sentinel://127.0.0.1:{free_port()},127.0.0.1:{port}/{SERVICE}", [master, replica], watcher())


@contextmanager
def sentinel_tls(certificates: Certificates) -> Iterator[Topology]:
    port, watched = free_port(), free_port()
    with running(*certificates.for_servers(port)) as master:
        config = [f"{name.removeprefix('--')} {value}" for name, value in pairs(certificates.for_servers(watched))]
        with watching(port, *config, "tls-replication yes"):
            url = f"sentinel://127.0.0.1:{watched}/{SERVICE}?tls=true"
            yield Topology(url, [master], watcher() | certificates.for_clients)


@contextmanager
def cluster(_: Certificates) -> Iterator[Topology]:
    with closing(Cluster(NAME, *ACL, login=LOGIN)) as made:
        yield Topology(made.url, [made.owner(KEY)])


@contextmanager
def cluster_tls(certificates: Certificates) -> Iterator[Topology]:
    with closing(Cluster(NAME, *ACL, login=LOGIN, tls=certificates.for_servers)) as made:
        yield Topology(
            f"redis+cluster://127.0.0.1:{made.ports[0]}?tls=true", [made.owner(KEY)], certificates.for_clients
        )


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
    lines = [
        *config,
        f"user {WATCHER} on >{WATCHWORD} ~* &* +@all",
        "user default reset on nopass +ping",
        *monitoring(master_port, 1, 60_000),
        f"sentinel auth-user {SERVICE} {USER}",
        f"sentinel auth-pass {SERVICE} {PASSWORD}",
    ]
    with closing(Sentinel(NAME, lines)) as made:
        yield made.port


TOPOLOGIES = {
    "alone": alone,
    "unix": unix,
    "tls": tls,
    "sentinel": sentinel,
    "sentinel+tls": sentinel_tls,
    "cluster": cluster,
    "cluster+tls": cluster_tls,
}
