from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

Rmq = Callable[..., Any]
CANARY = "canary-9f31"
COMMANDS = [
    ["stats"], ["peek", "q"], ["leases", "q"], ["queues", "list"], ["dlq", "list", "q"], ["dlq", "purge", "q", "--yes"],
    ["top", "--times", "1"], ["consume", "q", "--json"], ["publish", "q", "x"], ["reap", "q"], ["doctor", "--json"],
]  # fmt: skip


@pytest.fixture
def user(redis_client: redis.Redis) -> Iterator[str]:
    redis_client.acl_setuser("cli", enabled=True, passwords=[f"+{CANARY}"], keys="*", channels="*", commands=["+@all"])
    yield "cli"
    redis_client.acl_deluser("cli")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("password", [CANARY, f"{CANARY}-wrong"])
def test_no_command_shows_a_password(
    rmq: Rmq, user: str, command: list[str], server_url: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmq("publish", "q", "x")
    monkeypatch.setenv("RMQ_URL", server_url.replace("://", f"://{user}:{password}@"))
    ran = rmq(*command)
    assert CANARY not in ran.out + ran.err
    refused_or_told = (2,) if password != CANARY else (0, 1) if "doctor" in command else (0,)
    assert ran.code in refused_or_told


def test_credentials_may_be_given_separately_from_the_url(rmq: Rmq, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQ_USERNAME", user)
    monkeypatch.setenv("RMQ_PASSWORD", CANARY)
    assert rmq("publish", "q", "x").code == 0
    monkeypatch.setenv("RMQ_PASSWORD", "wrong")
    assert rmq("stats").code == 2


def test_help_does_not_show_the_url_of_the_environment(rmq: Rmq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQ_URL", f"redis://:{CANARY}@localhost")
    assert CANARY not in rmq("stats", "--help").out


def test_an_unreachable_server_has_an_exit_code_and_is_reported_soon(rmq: Rmq) -> None:
    ran = rmq("stats", "--url", f"redis://:{CANARY}@127.0.0.1:1/0")
    assert ran.code == 3
    assert "did not answer" in ran.err
    assert CANARY not in ran.err
