"""Reading the queues of a cluster, where no two queues share a call, and of an embedded server."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Mount

from rmq_console.serve.app import PLACE
from rmq_console.serve.reading import QueueReader
from rmq_core import LeasedConfig, LeasedQueue, RedisSettings, embedded, open_queue
from tests.console.serve.conftest import FROM_PAGE, Served
from tests.servers import Cluster, name_on

API = "/api/connections/{connection_id}"


async def looked_at(url: str) -> dict[str, int]:
    """Fill queues, and return how many messages of each are ready after they were read."""
    for name in ("a", "b", "c"):
        with LeasedQueue(url, name) as queue:
            queue.publish_many(["x", "y"])
            held = queue.claim()
            assert held is not None
            queue.client.zadd(f"rmq:{{{name}}}:leases", {held.id: 1})
    with open_queue(url, "d", "jobs") as jobs:  # type: ignore[attr-defined]
        jobs.publish({"n": 1})
    reader = QueueReader(RedisSettings.from_url(url))
    try:
        await reader.ping()
        readings = await reader.all()
        assert [reading.expired for reading in readings] == [1, 1, 1, 0]
        one, first = (await reader.one("a")).stats, readings[0].stats
        assert one is not None
        assert first is not None
        assert one[:5] == first[:5]
        return {reading.name: reading.stats.ready for reading in readings if reading.stats}
    finally:
        await reader.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with closing(Cluster("7.0")) as made:
        yield made


async def test_the_queues_of_a_cluster_are_read_one_by_one(cluster: Cluster) -> None:
    assert await looked_at(cluster.url) == {"a": 2, "b": 2, "c": 2, "d": 1}


class Walk:
    """Asks routes about one queue, remembers which, and fails at the first that does not answer with 200."""

    def __init__(self, client: httpx.AsyncClient, queue: str) -> None:
        self.client, self.queue = client, queue
        self.taken: set[str] = set()

    async def get(self, path: str, **query: Any) -> Any:
        return await self._ask(path, self.client.get(self._of(path), params=query))

    async def post(self, part: str, **wish: Any) -> Any:
        path = f"{API}/{part}"
        return await self._ask(path, self.client.post(self._of(path), json={"queue": self.queue, **wish}))

    def _of(self, path: str) -> str:
        for parameter, value in (("{connection_id}", PLACE), ("{queue:path}", self.queue), ("{name}", "main.js")):
            path = path.replace(parameter, value)
        return path

    async def _ask(self, path: str, asking: Awaitable[httpx.Response]) -> Any:
        self.taken.add(path)
        answer = await asking
        assert answer.status_code == 200, (path, answer.text)
        return answer.json() if answer.headers.get("Content-Type") == "application/json" else answer.text


def paths(app: Any) -> Iterator[str]:
    """Yield the paths of all routes of an application, and of those that are mounted in it."""
    while not hasattr(app, "routes"):  # unwrap the middleware
        app = app.app
    for route in app.routes:
        inner = route.app if isinstance(route, Mount) else getattr(route, "original_router", None)  # of newer FastAPI
        yield from [route.path] if inner is None else paths(inner)


@pytest.mark.parametrize("node", range(3))
async def test_every_route_works_for_a_queue_on_any_node_of_a_cluster(
    cluster: Cluster, tmp_path: Path, node: int
) -> None:
    name = name_on(node)
    with LeasedQueue(cluster.url, name, LeasedConfig(max_deliveries=1)) as queue:
        queue.publish_many(["a", "b", "c", "d"])
        for _ in range(3):
            held = queue.claim()
            assert held is not None
            queue.nack(held, reason="it failed")
        queue.publish("e")
        assert queue.claim(owner="o", lease_id="one")
        assert queue.claim(owner="o", lease_id="two")
        ready, later = queue.publish("f").id, queue.publish("g", delay=3600).id
    served = Served(tmp_path, cluster.url)
    try:
        walk = Walk(served.client(**FROM_PAGE), name)
        for path in (
            "/",
            "/static/{name}",
            "/healthz",
            "/readyz",
            "/metrics",
            "/keda/{queue:path}",
            "/api/connections",
        ):
            await walk.get(path)
        assert name in [row["name"] for row in (await walk.get(f"{API}/queues"))["queues"]]
        for part in ("queue", "history", "reasons", "groups"):
            await walk.get(f"{API}/{part}", name=name)
        await walk.get(f"{API}/lease", name=name, lease_id="one")
        dead = [each["id"] for each in (await walk.get(f"{API}/messages", name=name, target="dead"))["messages"]]
        await walk.get(f"{API}/why", name=name, message_id=ready)
        await walk.get(f"{API}/export", name=name, target="dead")
        await walk.post("search", target="dead", where={"reason": "it failed"})
        await walk.post("count", target="dead", where={"reason": "it failed"})
        await walk.post("pause", reason="a drill")
        assert (await walk.get(f"{API}/queue", name=name))["pause"].endswith(": a drill")
        await walk.post("resume")
        await walk.post("configure", settings=["failed_log=5"])
        await walk.post("mark", text="a mark")
        assert (await walk.post("release", lease_id="one", owner="o"))["released"] == 1
        assert (await walk.post("expire", lease_id="two", owner="o"))["expired"] == 1
        assert (await walk.post("release-leases", owner="nobody"))["released"] == 0
        assert (await walk.post("expire-leases", owner="nobody"))["expired"] == 0
        await walk.post("cancel", message_id=ready)
        await walk.post("run-now", message_id=later)
        await walk.post("edit", message_id=dead[0], payload="better", kind="text")
        await walk.post("discard", message_ids=[dead[1]])
        await walk.post("dead-letter", message_id=later)
        assert (await walk.post("redrive"))["redriven"] == 2
        assert (await walk.post("purge", target="ready", confirm=name))["purged"] == 5
        with LeasedQueue(cluster.url, name) as queue:
            queue.publish_many(["h", "i"])
        await walk.post("pause")
        assert (await walk.post("move", target=f"moved-from-{node}"))["moved"] == 2
        assert walk.taken == set(paths(served.app()))
    finally:
        await served.close()


async def test_an_embedded_server_is_read_too(tmp_path: Path) -> None:
    try:
        assert await looked_at(f"embedded://{tmp_path}/data") == {"a": 2, "b": 2, "c": 2, "d": 1}
    finally:
        embedded.stop(tmp_path / "data")
