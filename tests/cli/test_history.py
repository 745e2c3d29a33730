"""`rmq history`, `rmq mark` and `rmq why`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import redis

from rmq_core import LeasedConfig, LeasedQueue

Rmq: TypeAlias = Callable[..., Any]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_history_shows_a_row_for_each_measure_and_the_marks(rmq: Rmq, server_url: str) -> None:
    with LeasedQueue(server_url, "orders") as queue:
        queue.publish_many([*"abc"])
        queue.ack(queue.claim(max_messages=2))
    assert rmq("mark", "orders", "deployed 1.4").out == "marked orders: deployed 1.4\n"
    shown = rmq("history", "orders").out
    assert "orders: 60 minutes from" in shown
    rows = {line.split()[0]: line.split()[1:4] for line in shown.splitlines() if line.startswith(("publ", "acked"))}
    assert rows["published"][:2] == ["3", "3"]
    assert rows["acked"][:2] == ["2", "2"]
    assert "deployed 1.4" in shown
    assert "dead" not in shown


def test_a_part_of_the_history_is_shown_minute_by_minute(rmq: Rmq, server_url: str) -> None:
    with LeasedQueue(server_url, "orders") as queue:
        queue.publish_many([*"abc"])
    shown = rmq("history", "orders", "--from", "10m", "--rows").out.splitlines()
    assert shown[1].split()[2] == "published"
    assert len(shown) == 4, "minutes in which nothing happened have no row"
    assert shown[3].split()[2] == "3"
    before = rmq("history", "orders", "--from", "30m", "--to", "10m", "--json").records
    assert len(before) in {21, 22}
    assert sum(minute["published"] for minute in before) == 0
    assert len(rmq("history", "orders", "--from", "2d", "--json").records) in {49, 50}, "hours reach further"
    assert "later than the time" in rmq("history", "orders", "--from", "10m", "--to", "20m").err
    assert "in which zone" in rmq("history", "orders", "--from", "2026-11-28T08:00").err
    for never in ("nan", "inf", "1e300"):
        assert rmq("history", "orders", "--from", never).code == 2
    assert "leave --minutes" in rmq("history", "orders", "--from", "10m", "--minutes", "5").err


@pytest.mark.parametrize("discipline", ["reliable", "rotation", "streams"])
def test_queues_that_keep_no_history_say_so_and_name_those_that_do(
    rmq: Rmq, redis_client: redis.Redis, discipline: str
) -> None:
    rmq("publish", "orders", '{"n":1}', "-j", "-d", discipline) if discipline == "streams" else rmq(
        "publish", "orders", "a", "-d", discipline
    )
    for words in (["history", "orders"], ["mark", "orders", "deployed"]):
        done = rmq(*words)
        assert (done.code, f"'{discipline}' has no history; use leased or jobs" in done.err) == (2, True)
    assert not redis_client.keys("*history*")


def test_why_tells_the_story_of_a_message_and_what_is_unknown(rmq: Rmq, server_url: str) -> None:
    with LeasedQueue(server_url, "orders", LeasedConfig(journal=100)) as queue:
        message_id = queue.publish("a").id
        queue.ack(queue.claim(owner="host-1"))
    shown = rmq("why", "orders", message_id)
    assert f"{message_id} of orders: gone; delivered once, acked once" in shown.out
    assert shown.out.count("host-1") == 2
    (timeline,) = lines(rmq("why", "orders", message_id, "--json").out)
    assert [step["what"] for step in timeline["steps"]] == ["published", "claimed", "acked"]
    assert (timeline["claims"], timeline["acks"]) == (1, 1)
    assert "unknown: the journal does not name this id" in rmq("why", "orders", "never").err
