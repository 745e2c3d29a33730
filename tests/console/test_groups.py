"""What the console says of a queue whose messages wait in groups: its groups, its publications, what is isolated."""

from __future__ import annotations

import asyncio
import io
import threading

import httpx

from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.transfer.exporting import ExportFile
from rmq_core.transfer.importing import Import, ImportOptions
from tests.console.conftest import API, QUEUE, Asking, fetch, post


async def test_groups_and_publications_are_listed_for_who_may_see_messages(
    page: httpx.AsyncClient, asking: Asking, queue: LeasedQueue
) -> None:
    queue.publish("in one line", group="t1")
    assert await fetch(page, "groups") == {"groups": [], "publications": []}
    queue.admin.purge("ready")
    queue.admin.configure(groups="exclusive", pause_after_dead="20 in 10m")
    for number in range(12):
        queue.publish_many(["x"] * (number + 1), group=f"t{number}", publication=f"month {number % 3}")
    queue.claim(groups=["t11"], max_messages=2)
    found = await fetch(page, "groups", count=2)
    top = {"priority": 0, "isolated": False, "until": None}
    assert found["groups"] == [
        {"name": "t10", "waiting": 11, "leases": 0, "ready": True, **top},
        {"name": "t11", "waiting": 10, "leases": 1, "ready": False, **top},
    ]
    assert [(each["name"], each["messages"], each["leased"], each["ended"]) for each in found["publications"]] == [
        ("month 2", 30, 2, None), ("month 1", 26, 0, None),
    ]  # fmt: skip
    in_force = (await fetch(page, "queue"))["settings"]["in_force"]
    assert (in_force["groups"], in_force["pause_after_dead"]) == ("exclusive", "20 in 10m")
    for user in ("counter", "reader"):
        assert (await asking(user).get(f"{API}/groups", params={"name": QUEUE})).status_code == 403


async def test_groups_that_change_while_they_are_read_are_each_listed_once(
    page: httpx.AsyncClient, queue: LeasedQueue, redis_url: str
) -> None:
    queue.admin.configure(groups="fair")
    stay = {f"stays-{number}": 50 for number in range(20)}
    for name, many in stay.items():
        queue.publish_many(["x"] * many, group=name)
    stop, errors = threading.Event(), list[BaseException]()

    def change() -> None:
        try:
            with LeasedQueue(redis_url, QUEUE, LeasedConfig(max_deliveries=1)) as other:
                for turn in range(1000):
                    names = [f"comes-{turn}-{number}" for number in range(200)]
                    for name in names:
                        other.publish("y", group=name)
                    while lease := other.claim(groups=names[:100], max_messages=100):
                        other.ack(lease)
                    if turn % 2:
                        other.admin.configure(groups='fair {"stays-1": 2}' if turn % 4 == 1 else "fair")
                    if stop.is_set():
                        return
        except BaseException as error:
            errors.append(error)
            raise

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            found = (await fetch(page, "groups", count=100))["groups"]
            names = [each["name"] for each in found]
            assert len(set(names)) == len(names)
            assert {each["name"]: each["waiting"] for each in found if each["name"] in stay} == stay
            await asyncio.sleep(0)
    finally:
        stop.set()
        thread.join()
    assert errors == []
    queue.admin.purge("ready")
    queue.admin.configure(reset="groups")
    assert (await fetch(page, "groups"))["groups"] == []


async def test_isolated_messages_of_groups_are_found_counted_and_exported_apart(
    page: httpx.AsyncClient, redis_url: str
) -> None:
    with LeasedQueue(redis_url, QUEUE, LeasedConfig(max_deliveries=9)) as queue:
        queue.admin.configure(groups="exclusive")
        queue.publish_many([f"a{number}" for number in range(4)], group="a")
        for _ in range(2):
            queue.nack(queue.claim(max_messages=4))
        queue.publish_many(["b0", "b1"], group="b")
        where = {"reason": "*"}
        found = await post(page, "search", target="isolated", where=where)
        assert [(each["payload"], each["group"]) for each in found["messages"]] == [
            (f"a{n}", "a") for n in (3, 2, 1, 0)
        ]
        assert (await post(page, "count", target="ready", where={"header": "rmq-group"}))["count"] == 6
        export = await page.get(f"{API}/export", params={"name": QUEUE, "target": "isolated"})
        assert queue.admin.purge("isolated") == 4
        assert (await post(page, "search", target="isolated", where=where))["messages"] == []
        Import(queue, "back", ImportOptions()).run(ExportFile(io.BytesIO(export.content)))
        lease = queue.claim(max_messages=9, groups=["a"])
        assert lease
        assert (lease.count, lease.isolation) == (2, (2, 2))
