"""A PostgreSQL that belongs to the tests: Debian's package, own folder, free port, stopped with the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import free_port, until

START_S = 60
UPDATE = ["apt-get", "-qq", "update"]
INSTALL = ["apt-get", "-qq", "install", "--yes", "--no-install-recommends", "postgresql"]


class Postgres:
    """A running server; `dsn` is the connection string for DB-API modules."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rmq-postgres-"))
        self.port = free_port()
        self.bin = binaries()
        self.dsn = f"host=127.0.0.1 port={self.port} user=rmq dbname=postgres"
        self._initialise()
        data = ["-D", str(self.folder / "data"), "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder)]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*_as_its_user("--pdeathsig", "QUIT"), self.bin / "postgres", *data, "-c", "fsync=off"],
                stdout=log, stderr=log, cwd="/",
            )  # fmt: skip
        until(self._answers, START_S)

    def stop(self) -> None:
        """Stop it and remove its folder."""
        self.process.send_signal(3)  # SIGQUIT: at once, since none of its data is kept
        self.process.wait(START_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialise(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        options = ["-D", str(self.folder / "data"), "-U", "rmq", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run([*_as_its_user(), self.bin / "initdb", *options], check=True, capture_output=True, cwd="/")

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        asked = [self.bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(asked, check=False).returncode == 0


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Yield a PostgreSQL for the duration of the block."""
    server = Postgres()
    try:
        yield server
    finally:
        server.stop()


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs, newest first; Debian's package is installed when there is none."""
    if not _found():
        subprocess.run(UPDATE, check=False, capture_output=True)
        result = subprocess.run(INSTALL, check=False, capture_output=True, text=True)
        assert _found(), f"the tests need Debian's postgresql; `{' '.join(INSTALL)}` failed:\n{result.stderr}"
    return _found()[-1]


def _found() -> list[Path]:
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return sorted((folder for folder in folders if (folder / "initdb").exists()), key=lambda path: int(path.parts[-2]))


def _as_its_user(*options: str) -> list[str]:
    """Return the beginning of a command line that runs a program as a user PostgreSQL accepts, which root is not."""
    if os.geteuid():
        return ["setpriv", *options, "--"] if options else []
    user = pwd.getpwnam("postgres")
    return ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", *options, "--"]
