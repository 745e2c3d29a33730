"""Two versions of RMQ beside each other: wheels, unpacked into folders that only the processes of the tests import.

`--old-wheel` and `--new-wheel` name the wheels. Without them, the old one is built from the commit of the last
release, and the new one from the current files. These tests run only with `--faults=full`.
"""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.servers import NAMES, Server, start_server
from tests.upgrade.processes import Version, end_all
from tests.wheel import ROOT, build_wheel

RELEASED = {"0.1.0": "2dd9b94f0d63366073965433f7ccf367ef04300e"}
"""The commit of each release, the last one at the end; a release is known by its commit, because there are no tags."""
SERVERS = [name for name in ("7.0", "8.6") if name in NAMES]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options that name the wheels."""
    parser.addoption(
        "--old-wheel", default="", help="the wheel to upgrade from; default: the last release, built from git"
    )
    parser.addoption("--new-wheel", default="", help="the wheel to upgrade to; default: built from the current files")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these tests out of the short form: building the wheels needs git's history and the package index."""
    return True if collection_path.name.startswith("test_") and config.getoption("faults") != "full" else None


@pytest.fixture(scope="session")
def old(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The version to upgrade from."""
    folder = tmp_path_factory.mktemp("old")
    given = pytestconfig.getoption("old_wheel", "")
    return _unpacked(Path(given) if given else _released([*RELEASED][-1], folder), folder)


@pytest.fixture(scope="session")
def new(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The version to upgrade to."""
    folder = tmp_path_factory.mktemp("new")
    given = pytestconfig.getoption("new_wheel", "")
    return _unpacked(Path(given) if given else build_wheel(folder), folder)


@pytest.fixture(scope="module", params=SERVERS)
def shared(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that both versions use."""
    running = start_server(request.param)
    yield running
    running.stop()


@pytest.fixture
def client(shared: Server) -> Iterator[redis.Redis]:
    """A plain client of the server, which is emptied; the test's processes end before the next test."""
    with shared.client(decode_responses=True) as plain:
        plain.flushall()
        yield plain
        end_all()


def _released(version: str, folder: Path) -> Path:
    source = folder / "source"
    source.mkdir()
    archive = subprocess.run(["git", "archive", RELEASED[version]], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        reason = archive.stderr.decode().strip()
        pytest.fail(
            f"{version} cannot be built: {reason}. Fetch the whole history of the repository, or pass --old-wheel."
        )
    subprocess.run(["tar", "--extract", "--directory", source], input=archive.stdout, check=True)
    return build_wheel(folder, source)


def _unpacked(wheel: Path, folder: Path) -> Version:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return Version(wheel.name, folder / "installed")
