"""Reading the queues of a cluster, where no two queues share a call, and of an embedded server."""

from __future__ import annotations

from pathlib import Path

from rmq_core import LeasedQueue, RedisSettings, embedded, open_queue
from rmq_core.serve.consumer_settings import ConsumerSettings
from rmq_core.serve.reading import QueueReader
from tests.servers import Cluster


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
    reader = QueueReader(RedisSettings.from_url(url), ConsumerSettings())
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


async def test_the_queues_of_a_cluster_are_read_one_by_one() -> None:
    cluster = Cluster("7.0")
    try:
        assert await looked_at(cluster.url) == {"a": 2, "b": 2, "c": 2, "d": 1}
    finally:
        cluster.close()


async def test_an_embedded_server_is_read_too(tmp_path: Path) -> None:
    try:
        assert await looked_at(f"embedded://{tmp_path}/data") == {"a": 2, "b": 2, "c": 2, "d": 1}
    finally:
        embedded.stop(tmp_path / "data")
