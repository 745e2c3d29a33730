"""Two versions of RMQ beside each other: wheels, unpacked into folders that only the processes of the tests import.

`--old-wheel` and `--new-wheel` name the wheels. Without them, the old one is built from the commit of version 0.1.0,
and the new one from HEAD. These tests run only with `--faults=full`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server, start_server
from tests.upgrade.processes import Version

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "upgrade"
RELEASED = {"0.1.0": "2dd9b94f0d63366073965433f7ccf367ef04300e"}
"""The commit of each version that this one must work beside."""
SERVERS = ["7.0", "8.6"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options that name the wheels."""
    parser.addoption("--old-wheel", default="", help="the wheel to upgrade from; default: 0.1.0, built from git")
    parser.addoption("--new-wheel", default="", help="the wheel to upgrade to; default: HEAD, built from git")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Ignore these tests in the short form: building the wheels needs the history and the package index."""
    return True if config.getoption("faults") != "full" else None


@pytest.fixture(scope="session")
def old(pytestconfig: pytest.Config) -> Version:
    """The version to upgrade from."""
    return _unpacked("old", pytestconfig.getoption("old_wheel", ""), RELEASED["0.1.0"])


@pytest.fixture(scope="session")
def new(pytestconfig: pytest.Config) -> Version:
    """The version to upgrade to."""
    return _unpacked("new", pytestconfig.getoption("new_wheel", ""), "HEAD")


@pytest.fixture(scope="module", params=SERVERS)
def shared(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that both versions use."""
    running = start_server(request.param)
    yield running
    running.stop()


def _unpacked(name: str, wheel: str, commit: str) -> Version:
    folder = BUILD / f"{name}-{os.getpid()}"
    found = Path(wheel) if wheel else _built(commit, folder)
    with zipfile.ZipFile(found) as archive:
        archive.extractall(folder / "installed")
    return Version(name, folder / "installed")


def _built(commit: str, folder: Path) -> Path:
    source = folder / "source"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.fail(f"{archive.stderr.decode()}: fetch the whole history of the repository, or pass --old-wheel")
    subprocess.run(["tar", "--extract", "--directory", source], input=archive.stdout, check=True)
    command = ["uv", "build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", folder, source]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
