"""`rmq` for a Redis user who may use some queues of a server only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from rmq_core import LeasedQueue
from rmq_core.protocol import DISCIPLINES
from tests.core.tenants import denied, grant

Rmq = Callable[..., Any]


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_each_command_works_for_a_user_with_exactly_the_documented_permissions(
    discipline: str, rmq: Rmq, redis_client: redis.Redis, tenant: str, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("RMQ_URL", tenant)
    grant(redis_client, discipline, "orders")
    of, file = ["orders", "-d", discipline], str(tmp_path / "export")
    json = ["-j"] if discipline == "streams" else []
    for words in (
        ["publish", *of, '{"n":1}', *json], ["stats"], ["stats", *of], ["peek", *of], ["search", *of, "--text", "n"],
        ["top", "--times", "1"], ["leases", *of], ["consume", *of, "--max", "1"], ["pause", *of], ["resume", *of],
        ["publish", *of, '{"n":2}', *json], ["consume", *of, "--max", "1", "--", "false"], ["release", *of, "a"],
        ["expire", *of, "a", "--yes"], ["run-now", *of, "a"], ["cancel", *of, "a", "--yes"], ["reap", *of],
        ["dead-letter", *of, "a"], ["history", *of], ["mark", *of, "deployed"], ["why", *of, "a"], ["doctor", *of],
        ["export", *of, file], ["import", *of, file], ["journal", "export", *of, f"{file}.journal"],
        ["dlq", "list", *of], ["dlq", "reasons", *of], ["dlq", "redrive", *of], ["dlq", "purge", *of, "--yes"],
        ["queues", "list"], ["queues", "forget", "orders"],
    ):  # fmt: skip
        ran = rmq(*words)
        assert (denied(redis_client), ran.code == 3) == ([], False), (words, ran)
    published = rmq("publish", *of, '{"n":3}', *json)
    assert (published.code, published.err) == (0, "")


@pytest.fixture
def theirs(rmq: Rmq, redis_client: redis.Redis, server_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch) -> Rmq:
    """`rmq` of a user of the queue `orders`, beside two queues of others."""
    for name in ("a", "orders", "z"):
        with LeasedQueue(server_url, name) as queue:
            queue.publish("x")
    grant(redis_client, "leased", "orders")
    monkeypatch.setenv("RMQ_URL", tenant)
    return rmq


@pytest.mark.parametrize("command", [["stats"], ["top", "--times", "1"]])
def test_queues_of_others_are_named_and_do_not_hide_those_of_the_user(command: list[str], theirs: Rmq) -> None:
    ran = theirs(*command, "--json")
    assert (ran.code, [record["queue"] for record in ran.records]) == (0, ["orders"])
    shown = theirs(*command)
    assert "\norders" in shown.out
    for text in (ran.err, shown.err or shown.out):
        assert all(name in text for name in ("a", "z"))
        assert "permission" in text or "can't" in text


def test_a_named_queue_of_others_fails_the_command(theirs: Rmq) -> None:
    ran = theirs("stats", "orders", "z", "--json")
    assert (ran.code, [record["queue"] for record in ran.records]) == (1, ["orders"])
    assert ran.err.startswith("rmq: z: ")
    assert theirs("stats", "z").code == 1


def test_the_doctor_names_what_a_user_lacks_for_a_queue_and_nothing_of_other_queues(theirs: Rmq, server: Any) -> None:
    mine, others, unnamed = (theirs("doctor", *names, "--json").records[0] for names in (["orders"], ["z"], []))
    assert permissions(mine)["level"] == ("unknown" if server.name == "6.2" else "ok")
    assert (permissions(others)["level"], permissions(unnamed)["level"]) == ("fail", "unknown")
    assert permissions(others)["advice"].endswith(" ~rmq:{z}:*")
    assert permissions(unnamed)["advice"].startswith("rmq doctor QUEUE")
    assert [one["level"] for one in unnamed["findings"] if one["what"] == "format"] == ["unknown"]


def permissions(report: dict[str, Any]) -> dict[str, Any]:
    return next(finding for finding in report["findings"] if finding["what"] == "permissions")
