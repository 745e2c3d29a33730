"""Servers from Debian packages, unpacked into a cache folder and run with their own C library.

apt reads the mirror from the machine's own configuration but keeps lists and state in the cache, so neither root nor
a clean-up is needed. The unpacked server starts through the unpacked dynamic loader: a package of Debian unstable runs
on a Debian that is years older.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SUITES = ("bookworm", "trixie", "sid", "experimental")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Of all that apt would install, a server needs itself and shared libraries: no maintainer scripts, no users, no units.
NEEDED = re.compile(r"lib|zlib|openssl-provider|redis-tools|valkey-tools|prometheus$")


class NotThere(RuntimeError):
    """No suite of Debian has the package in a version that fits."""


@dataclass(frozen=True)
class Package:
    """A server inside Debian: the package `name` whose file usr/bin/`binary` is it, perhaps under another name.

    `suite` is the release of Debian that keeps `version`, such as 8.0. Without it, the newest of all suites is meant,
    which is at least `version`: Debian replaces it whenever there is a newer one, and may drop it.
    """

    name: str
    binary: str
    server: str
    version: str
    suite: str = ""

    def choose(self, offers: Sequence[Offer]) -> Offer:
        """Return the offer that fits, of offers that begin with the newest; NotThere names all when none fits."""
        for offer in offers:
            found = upstream(offer.version)
            kept = offer.suite == self.suite and found.startswith(f"{self.version}.")
            if kept or (not self.suite and _number(found) >= _number(self.version)):
                return offer
        wanted = f"{self.version} in {self.suite}" if self.suite else f"{self.version} or later in any suite"
        there = ", ".join(f"{upstream(offer.version)} in {offer.suite}" for offer in offers) or "nothing"
        raise NotThere(
            f"Debian has no {self.name} {wanted}; there is {there}: correct its line in tests/servers, and what the "
            "documents say of this server"
        )


class Offer(NamedTuple):
    """A version of a package, as Debian writes it, and the suite that has it."""

    version: str
    suite: str


def upstream(version: str) -> str:
    """Return the version without what Debian adds to it: `8.1.1` of `5:8.1.1+dfsg1-3`."""
    return re.sub(r"^\d+:|[-+~].*$", "", version)


def _number(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def cache() -> Path:
    """Return the folder that keeps unpacked servers between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rmq-servers"


def command_of(name: str, package: Package) -> list[str]:
    """Return how to run `package`, downloaded and unpacked as `name` when the cache does not contain it yet."""
    folder = cache() / name
    if not folder.is_dir():
        with locked(cache()):
            if not folder.is_dir():
                _fetch(package, folder)
    loader = next(folder.glob("**/ld-linux-*.so.*"))
    libraries = sorted({str(path.parent) for path in folder.glob("**/*.so.*")})
    return [str(loader), "--library-path", ":".join(libraries), str(folder / "usr" / "bin" / package.server)]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the cache, so that only one process fills it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(package: Package, folder: Path) -> None:
    options = _apt_options(cache() / "apt")
    with tempfile.TemporaryDirectory(dir=cache()) as scratch:
        root = Path(scratch) / "root"
        root.mkdir()
        for archive in _download(package, options, Path(scratch)):
            subprocess.run(["dpkg-deb", "--extract", archive, root], check=True)
        if package.server != package.binary:
            shutil.copy(root / "usr" / "bin" / package.binary, root / "usr" / "bin" / package.server)
        root.rename(folder)


def _download(package: Package, options: list[str], folder: Path) -> list[Path]:
    _run(["apt-get", *options, "-qq", "update"])
    offer = package.choose(offers(_run(["apt-cache", *options, "madison", package.name])))
    wanted = ["--target-release", offer.suite, f"{package.name}={offer.version}"]
    plan = _run(["apt-get", *options, "install", "--simulate", "--no-install-recommends", *wanted])
    chosen = re.findall(r"^Inst (\S+) \((\S+)", plan, flags=re.MULTILINE)
    needed = [f"{name}={version}" for name, version in chosen if NEEDED.match(name)]
    _run(["apt-get", *options, "-qq", "download", *needed], folder)
    return sorted(folder.glob("*.deb"))


def offers(madison: str) -> list[Offer]:
    """Return what `apt-cache madison` printed, the newest first."""
    lines = re.findall(r"^ *\S+ \| *(\S+) \| \S+ ([^/\s]+)/\S+ .*Packages$", madison, flags=re.MULTILINE)
    return [Offer(*line) for line in lines]


def _apt_options(state: Path) -> list[str]:
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    sources = state / "rmq.sources"
    sources.write_text(_sources())
    settings = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": state,
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Acquire::Languages": "none",
        "Acquire::Retries": 3,
        "Acquire::Check-Valid-Until": "false",  # a frozen mirror serves as well; signatures are checked all the same
        "APT::Sandbox::User": "root",  # apt's own user cannot write into a home folder
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _sources() -> str:
    signed_by = f"Signed-By: {KEYRING}\n" if KEYRING.exists() else ""
    return f"Types: deb\nURIs: {_mirror()}\nSuites: {' '.join(SUITES)}\nComponents: main\n{signed_by}"


def _mirror() -> str:
    """Return the Debian mirror that this machine is configured to use."""
    found = re.search(r"'(\S+?/debian)/dists/", _run(["apt-get", "update", "--print-uris"]))
    if found is None:
        message = "apt knows no Debian mirror here: set RMQ_TEST_SERVERS=name=redis://host:port,... to test your own"
        raise RuntimeError(message)
    return found.group(1)


def _run(command: list[str], folder: Path | None = None) -> str:
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    if result.returncode:
        message = f"{' '.join(command[:1] + command[-4:])} failed: {result.stderr.strip()}"
        raise RuntimeError(message)
    return result.stdout
