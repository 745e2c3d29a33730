"""The console of `rmq serve` changes queues with the settings of their consumers."""

from __future__ import annotations

import pytest

from rmq_core import LeasedQueue
from tests.console.serve.conftest import FROM_PAGE, QUEUE, Served

API = "/api/connections/redis"


@pytest.mark.parametrize(
    ("settings", "dead"), [((), 0), (("max_deliveries=1",), 1), ((f"{QUEUE}:max_deliveries=1",), 1)]
)
async def test_an_expired_lease_counts_with_the_given_max_deliveries(
    settings: tuple[str, ...], dead: int, served: Served, queue: LeasedQueue
) -> None:
    queue.publish("x")
    lease = queue.claim(lease_id="held", owner="worker")
    assert lease is not None
    client = served.client(served.app(allow_changes=True, settings=settings))
    body = {"queue": QUEUE, "lease_id": "held", "owner": "worker"}
    reply = await client.post(f"{API}/expire", json=body, headers=FROM_PAGE)
    assert reply.json() == {"expired": 1, "dead": dead}
    stats = queue.stats()
    assert (stats.ready, stats.dead) == (1 - dead, dead)
