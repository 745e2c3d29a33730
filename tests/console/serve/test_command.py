"""`rmq serve` and `rmq token` as commands."""

from __future__ import annotations

import builtins
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from rmq_cli import main
from rmq_console.serve.access import TokenFile
from rmq_console.serve.app import listening
from tests.servers.process import Server


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_token_is_printed_once_and_its_hash_is_added_to_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tokens"
    file.write_text("# tokens")
    for name in ("alice", "bob"):
        assert run("token", "view", name, "--tokens", str(file)) == 0
    first, second = capsys.readouterr().out.split()
    known = TokenFile(file)
    assert [user and user.name for user in map(known.user, (first, second))] == ["alice", "bob"]
    assert first not in file.read_text()


def test_a_new_file_of_tokens_is_private(tmp_path: Path) -> None:
    run("token", "view", "alice", "--tokens", str(tmp_path / "tokens"))
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o600


def test_the_server_does_not_start_for_others_without_a_way_to_recognise_them(
    redis_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("serve", "--url", redis_server.url, "--host", "0.0.0.0") == 2
    assert "rmq token" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(redis_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert run("serve", "--url", redis_server.url, "--port", str(port)) == 2
    assert f"port {port}" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    redis_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [each for each in sys.modules if each.startswith("rmq_console.serve")]:
        monkeypatch.delitem(sys.modules, name)
    usual = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "prometheus_client":
            raise ModuleNotFoundError("No module named 'prometheus_client'", name="prometheus_client")
        return usual(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert run("serve", "--url", redis_server.url) == 2
    assert "pip install 'rmq[serve]'" in capsys.readouterr().err
