"""The command line as a function: `rmq("stats", "q")` returns its exit code and what it wrote."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import redis

from rmq_cli import main
from rmq_core.protocol import DISCIPLINES


class Pipe(io.BytesIO):
    """Bytes that can be read once."""

    def seekable(self) -> bool:
        return False


class Ran(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return the JSON objects on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def rmq(
    redis_client: redis.Redis,
    server_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., Ran]:
    """Run `rmq` in this process against an empty database; `stdin=` is what is piped in."""
    monkeypatch.setenv("RMQ_URL", server_url)
    redis_client.flushdb()

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, *capfd.readouterr())

    return run


@pytest.fixture(params=DISCIPLINES)
def discipline(request: pytest.FixtureRequest) -> str:
    """Each discipline in turn."""
    return str(request.param)
