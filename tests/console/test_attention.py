"""The overview says in numbers why queues need attention."""

from __future__ import annotations

import re
from typing import Any

import httpx

from rmq_core import LeasedConfig, LeasedQueue
from tests.console.conftest import Asking, bury, fetch
from tests.core.leases import crash, elapse


async def reasons(page: httpx.AsyncClient) -> dict[str, list[str]]:
    rows = (await fetch(page, "queues"))["queues"]
    return {row["name"]: [sign["kind"] for sign in row["signs"]] for row in rows}


def opened(url: str, name: str, **config: Any) -> LeasedQueue:
    return LeasedQueue(url, name, LeasedConfig(**config))


async def test_each_queue_that_needs_attention_says_why(page: httpx.AsyncClient, redis_url: str) -> None:
    with opened(redis_url, "dying", max_deliveries=1) as queue:
        bury(queue, "bad")
    with opened(redis_url, "suspects") as queue:
        queue.publish_many([*"ab"])
        for _ in (1, 2):
            queue.nack(queue.claim(max_messages=2))
        queue.admin.pause()
    with opened(redis_url, "late") as queue:
        queue.publish("x")
        queue.claim(lease=0.001)
    with opened(redis_url, "calm") as queue:
        queue.publish("x")
    found = await reasons(page)
    assert found == {
        "dying": ["dying"], "suspects": ["paused", "isolated"], "late": ["expired"], "calm": [],
    }  # fmt: skip
    assert list(found)[-1] == "calm"


async def test_the_page_of_a_queue_says_the_same_as_the_overview(page: httpx.AsyncClient, redis_url: str) -> None:
    with opened(redis_url, "work", max_deliveries=1) as queue:
        bury(queue, "bad")
        queue.publish("x")
        queue.claim(lease=0.001)
    (row,) = (await fetch(page, "queues"))["queues"]
    assert [sign["text"] for sign in row["signs"]] == [
        "1 dead letter in the last hour", "expired lease: no consumer has taken its messages back yet",
    ]  # fmt: skip
    assert (await fetch(page, "queue", name="work"))["signs"] == row["signs"]


async def test_a_dead_letter_that_no_history_counted_is_dated_by_its_failure(
    page: httpx.AsyncClient, redis_url: str
) -> None:
    with opened(redis_url, "work", max_deliveries=1, history=False) as queue:
        bury(queue, "bad")
    assert await reasons(page) == {"work": ["dying"]}


async def test_failing_deliveries_are_told_while_their_message_is_leased(
    page: httpx.AsyncClient, redis_url: str
) -> None:
    with opened(redis_url, "loop") as queue:
        queue.publish("kills its workers")
        for _ in range(5):
            queue.nack(queue.claim())
        queue.claim(lease=3600)
        queue.admin.totals()  # sends the counts
    assert await reasons(page) == {"loop": ["failing"]}


async def test_a_lease_that_is_held_for_long_comes_before_idle_queues(page: httpx.AsyncClient, redis_url: str) -> None:
    for number in range(60):
        with opened(redis_url, f"idle-{number:02}") as queue:
            queue.ack(queue.claim() if queue.publish("x") else None)
    with opened(redis_url, "young") as queue:
        queue.publish("x")
        queue.claim(lease=3600)
    with opened(redis_url, "zombie") as queue:
        queue.publish_many([str(number) for number in range(94)])
        lease = queue.claim(max_messages=94, owner="hung", lease=3600)
        token, state, claimed, rest = queue.client.lindex(f"rmq:{{zombie}}:lease:{lease.id}", 0).split(b" ", 3)
        head = b" ".join([token, state, b"%d" % (int(claimed) - 901_000), rest])
        queue.client.lset(f"rmq:{{zombie}}:lease:{lease.id}", 0, head)
    found = await reasons(page)
    assert list(found)[:2] == ["zombie", "young"]
    assert (found["zombie"], found["young"]) == (["held"], [])


async def test_half_a_minute_after_the_last_claim_the_page_says_that_nobody_claims(
    page: httpx.AsyncClient, redis_url: str
) -> None:
    for name, passed, config in (
        ("gone", 25, {}),
        ("here", 15, {}),
        ("gone without a history", 85, {"history": False}),
        ("here without a history", 70, {"history": False}),
    ):
        with opened(redis_url, name, **config) as queue:
            queue.publish_many([*"ab"])
            queue.ack(queue.claim())
            elapse(queue, passed)
    with opened(redis_url, "no consumer yet") as queue:
        queue.publish("a")
        elapse(queue, 25)
    found = await reasons(page)
    assert {name for name, kinds in found.items() if kinds == ["unclaimed"]} == {
        "gone", "gone without a history", "no consumer yet",
    }  # fmt: skip
    (sign,) = (await fetch(page, "queue", name="gone"))["signs"]
    assert re.fullmatch(r"messages are ready, and nobody has claimed any for 2[4-9] s", sign["text"])


async def test_a_crash_loop_names_the_message_whose_deliveries_expired(
    page: httpx.AsyncClient, asking: Asking, redis_url: str
) -> None:
    with opened(redis_url, "crashes") as queue:
        killer = crash(queue, 3)
        queue.publish_many([*"abc"])
        told = await fetch(page, "queue", name="crashes")
        queue.claim(max_messages=4, owner="now", lease=3600)
        assert (await fetch(page, "queue", name="crashes"))["suspects"] == told["suspects"]
    assert told["signs"][0]["kind"] == "crashing"
    assert told["suspects"] == [{"id": killer, "expired": 3, "owner": ""}]
    assert "suspects" not in await fetch(asking("counter"), "queue", name="crashes")
