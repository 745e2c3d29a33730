"""The environments in which redis-message-queue and RMQ are compared: Python 3.12, the same redis-py parser for all.

RMQ gets the newest redis-py that redis-message-queue 7.0.0 accepts, because users who migrate from that version have
it: redis-py 8 sets a timeout on sockets, which costs every call two more system calls. The newest release of
redis-message-queue requires redis-py 8.

The library that RMQ is compared with is never a dependency of RMQ: uv creates its environments once, in a cache folder.
RMQ gets an environment there too, so that all run on the same interpreter.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKER = "benchmarks.message_queue_worker"
PYTHON = "3.12"


@dataclass(frozen=True, slots=True)
class Peer:
    """A library and the packages of its environment."""

    name: str
    module: str
    needs: tuple[str, ...]


OURS = Peer("RMQ beside redis-message-queue", "rmq_core.redis_message_queue", ("redis[hiredis]<8", "tenacity>=9.0"))
OLD = Peer("redis-message-queue 7.0.0", "redis_message_queue", ("redis-message-queue==7.0.0", "hiredis"))
NEW = Peer("redis-message-queue, newest", "redis_message_queue", ("redis-message-queue>7", "hiredis"))


class Missing(Exception):
    """There is no Python 3.12, or the environments cannot be created; the text says which."""


def cache() -> Path:
    """Return the folder that keeps the environments between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rmq-benchmarks"


def interpreter(peer: Peer) -> Path:
    """Return the Python of a peer's environment; create the environment unless it exists."""
    folder = cache() / peer.name.replace(" ", "-").replace(",", "")
    python = folder / "bin" / "python"
    wanted = folder / "needs.json"
    if not wanted.exists() or json.loads(wanted.read_text()) != list(peer.needs):
        shutil.rmtree(folder, ignore_errors=True)
        _uv("venv", "--quiet", "--python", str(find_python()), str(folder))
        _uv("pip", "install", "--quiet", "--python", str(python), *peer.needs)
        wanted.write_text(json.dumps(peer.needs))
    return python


def find_python() -> Path:
    """Find a Python 3.12 that runs."""
    for candidate in _candidates():
        if _runs(candidate):
            return candidate
    raise Missing(f"no Python {PYTHON} was found on PATH or among the versions of pyenv and uv")


def version(python: Path, package: str) -> str:
    """Return the version of a package in an environment."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    if on_path := shutil.which(f"python{PYTHON}"):
        yield Path(on_path)
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(versions.glob(f"{PYTHON}*/bin/python"))
    yield from sorted((Path.home() / ".local" / "share" / "uv" / "python").glob(f"cpython-{PYTHON}*/bin/python"))


def _runs(python: Path) -> bool:
    code = f"import sys; sys.exit(sys.version_info[:2] != {tuple(map(int, PYTHON.split('.')))})"
    return subprocess.run([python, "-c", code], check=False, capture_output=True).returncode == 0


def _uv(*args: str) -> None:
    uv = Path(sys.executable).with_name("uv")
    ended = subprocess.run([uv if uv.exists() else "uv", *args], check=False, capture_output=True, text=True)
    if ended.returncode:
        raise Missing(f"`uv {' '.join(args[:2])}` failed: {ended.stderr.strip().splitlines()[-1]}")
