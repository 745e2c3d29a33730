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
