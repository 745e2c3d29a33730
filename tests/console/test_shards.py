"""What the console says of a queue in shards: one queue, its shards, and those that do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from rmq_console import create_app
from rmq_core import LeasedQueue, NewMessage
from tests.console.conftest import API, FROM_PAGE, QUEUE, Asking, fetch, post
from tests.console.host import Kept, make_host
from tests.servers import Cluster


def spread(queue: LeasedQueue, shards: int = 3, messages: int = 30) -> list[str]:
    """Store messages in so many shards; return the names of the shards."""
    queue.admin.configure(shards=shards)
    queue.publish_many([NewMessage(str(number), dedup_key=str(number)) for number in range(messages)])
    return [each.name for each in queue.admin.shards()]


async def test_a_queue_in_shards_is_one_queue_whose_shards_are_listed(
    page: httpx.AsyncClient, asking: Asking, queue: LeasedQueue
) -> None:
    queue.publish("in one slot")
    assert "shards" not in await fetch(page, "queue")
    names = spread(queue)
    queue.claim(max_messages=20, lease_id="run")
    queue.nack(queue.claim(), reason="bad")
    found = await fetch(page, "queue")
    assert (found["ready"], found["leased"], found["leases"], found["dead"]) == (10, 20, 1, 1)
    assert [(each["id"], each["count"]) for each in found["listed"]] == [("run", 20)]
    shards = found["shards"]
    assert [each["name"] for each in shards] == names
    assert sum(each["stats"]["ready"] for each in shards) == 10
    assert [each["skew"] for each in shards] == [pytest.approx(each["stats"]["ready"] * 3 / 10) for each in shards]
    assert {(each["draining"], each["error"]) for each in shards} == {(False, None)}
    assert found["settings"]["settings"] == "shards=3"
    counter = await fetch(asking("counter"), "queue")
    assert [each["stats"]["ready"] for each in counter["shards"]] == [each["stats"]["ready"] for each in shards]


async def test_the_numbers_stay_those_of_the_queue_while_its_shards_change(
    page: httpx.AsyncClient, queue: LeasedQueue
) -> None:
    spread(queue, 6, 60)
    for count, draining in ((2, 4), (4, 4), (1, 7)):
        settings = (await post(page, "configure", settings=[f"shards={count}"]))["settings"]
        found = await fetch(page, "queue")
        assert settings == found["settings"]["settings"] == f"shards={count}"
        assert (found["ready"], sum(each["draining"] for each in found["shards"])) == (60, draining)
        assert all((each["skew"] is None) == each["draining"] for each in found["shards"])
    marks = [mark.text for mark in queue.admin.marks() if mark.kind == "configure"]
    assert marks == ["shards=6", "shards=2", "shards=4", "shards=1"]


async def test_the_overview_counts_all_shards(page: httpx.AsyncClient, queue: LeasedQueue, redis_url: str) -> None:
    names = spread(queue, 4, 40)
    with LeasedQueue(redis_url, "other") as other:
        other.publish("x")
        found = (await page.get(f"{API}/queues")).json()
        assert [(each["name"], each["ready"]) for each in found["queues"]] == [("other", 1), (QUEUE, 40)]
        assert found["sums"]["ready"] == 41
        for number in range(2):
            other.publish(str(number))
        queue.nack(queue.claim(), reason="bad")
        last = f"rmq:shard:{{{QUEUE}~{names[-1]}}}:"
        queue.client.lpush(f"{last}dead", queue.client.lpop(f"{last}ready"))
        row = next(each for each in (await page.get(f"{API}/queues")).json()["queues"] if each["name"] == QUEUE)
        assert (row["ready"], row["dead"]) == (38, 2)
        queue.client.set(f"{last}leases", "x")
        rows = {each["name"]: each for each in (await page.get(f"{API}/queues")).json()["queues"]}
        assert "error" in rows[QUEUE]
        assert rows["other"]["ready"] == 3
        queue.client.delete(f"{last}leases")


async def test_a_damaged_shard_hides_no_other(page: httpx.AsyncClient, asking: Asking, queue: LeasedQueue) -> None:
    names = spread(queue)
    queue.client.set(f"rmq:shard:{{{QUEUE}~{names[1]}}}:leases", "x")
    found = await fetch(page, "queue")
    lost = found["shards"][1]
    assert lost["stats"] is lost["skew"] is None
    assert "WRONGTYPE" in lost["error"]
    assert found["ready"] == sum(each["stats"]["ready"] for each in found["shards"] if each["stats"])
    assert found["listed"] == []
    hidden = (await fetch(asking("counter"), "queue"))["shards"][1]["error"]
    assert hidden == "no right to the server"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with closing(Cluster("7.0")) as made:
        yield made


async def test_the_page_shows_the_other_shards_while_one_is_away(cluster: Cluster) -> None:
    app = create_app(make_host(cluster.url, Kept()))
    with LeasedQueue(cluster.url, QUEUE) as queue:
        names = spread(queue, 6, 60)
        queue.claim(max_messages=10, lease_id="run")
    needed = {cluster.owner(key) for key in (f"{{{QUEUE}}}", "rmq:queues", "rmq:queues:leased")}
    away = next(name for name in names[1:] if cluster.owner(f"{{{QUEUE}~{name}}}") not in needed)
    cluster.owner(f"{{{QUEUE}~{away}}}").kill9()
    headers = {"X-User": "viewer", **FROM_PAGE}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://console.test", headers=headers) as page:
        found: Any = await fetch(page, "queue")
        shards = {each["name"]: each for each in found["shards"]}
        assert shards[away]["error"]
        assert 0 < sum(1 for each in found["shards"] if each["stats"]) < 6
        assert found["ready"] == sum(each["stats"]["ready"] for each in found["shards"] if each["stats"])
        assert (await fetch(page, "queue", lease_id="run"))["listed"] == []
