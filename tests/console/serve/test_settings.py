"""The console of `rmq serve` follows the settings that are stored with a queue, shows them and stores others."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import LeasedQueue
from tests.console.serve.conftest import FROM_PAGE, QUEUE, Served

API = "/api/connections/redis"


@pytest.mark.parametrize(("stored", "dead"), [({}, 0), ({"max_deliveries": 1}, 1)])
async def test_an_expired_lease_counts_with_the_stored_max_deliveries(
    stored: dict[str, Any], dead: int, served: Served, queue: LeasedQueue
) -> None:
    queue.admin.configure(**stored)
    queue.publish("x")
    lease = queue.claim(lease_id="held", owner="worker")
    assert lease is not None
    client = served.client(served.app(allow_changes=True))
    body = {"queue": QUEUE, "lease_id": "held", "owner": "worker"}
    reply = await client.post(f"{API}/expire", json=body, headers=FROM_PAGE)
    assert reply.json() == {"expired": 1, "dead": dead}
    stats = queue.stats()
    assert (stats.ready, stats.dead) == (1 - dead, dead)


async def test_settings_are_shown_and_changed_with_an_entry_in_the_audit_log(
    served: Served, queue: LeasedQueue
) -> None:
    queue.publish("x")
    client = served.client(served.app(allow_changes=True))
    body = {"queue": QUEUE, "settings": ["max_dead=5", "overflow=block 2", "max_ready=8"]}
    reply = await client.post(f"{API}/configure", json=body, headers=FROM_PAGE)
    assert reply.json()["stored"] == {"max_dead": 5, "max_ready": 8, "overflow": "block 2"}
    body = {"queue": QUEUE, "reset": "overflow, max_ready"}
    assert (await client.post(f"{API}/configure", json=body, headers=FROM_PAGE)).status_code == 200
    shown = (await client.get(f"{API}/queue", params={"name": QUEUE})).json()["settings"]
    assert (shown["settings"], shown["in_force"]["max_dead"]) == ("max_dead=5", 5)
    done = [line for line in served.audited() if line["event"] == "rmq_configure" and "done" in line["outcome"]]
    assert [line["outcome"] for line in done] == [
        "done: stored: max_dead=5, max_ready=8, overflow=block 2", "done: stored: max_dead=5",
    ]  # fmt: skip
    wrong = await client.post(f"{API}/configure", json={"queue": QUEUE, "settings": ["max_dead=x"]}, headers=FROM_PAGE)
    assert (wrong.status_code, "max_dead must be" in wrong.json()["detail"]) == (400, True)
    refused = served.client(served.app())
    assert (await refused.post(f"{API}/configure", json=body, headers=FROM_PAGE)).status_code == 403
