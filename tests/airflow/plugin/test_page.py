"""What the page shows to its users and does for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from rmq_core import LeasedConfig, LeasedQueue, LeaseLost
from tests.airflow.conftest import QUEUE
from tests.airflow.plugin.conftest import CONNECTION
from tests.servers import start_server

ENDED_MEANWHILE = "nothing was released: this lease has ended in the meantime"
API = f"/api/connections/{CONNECTION}"


async def fetch(client: httpx.AsyncClient, part: str, **query: Any) -> Any:
    answer = await client.get(f"{API}/{part}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def change(client: httpx.AsyncClient, part: str, **wish: Any) -> Any:
    answer = await client.post(f"{API}/{part}", json={"queue": QUEUE, **wish})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def doomed(queues: str, secured_url: str) -> Any:
    """The queue with one delivery: a nack makes a dead letter."""
    with LeasedQueue(secured_url, QUEUE, LeasedConfig(max_deliveries=1)) as queue:
        yield queue


def bury(queue: Any, *names: str) -> None:
    for name in names:
        queue.publish({"name": name}, headers={"from": "test"})
        queue.nack(queue.claim(owner="airflow:etl/run/load/-1/2"), reason=f"bad {name}")


async def test_the_overview_counts_what_every_queue_holds(op: httpx.AsyncClient, doomed: Any, secured_url: str) -> None:
    bury(doomed, "a")
    doomed.publish_many([*"bcd"])
    doomed.publish("later", delay=60)
    doomed.claim(max_messages=2)
    with LeasedQueue(secured_url, "other") as other:
        other.publish("x")
        other.admin.pause()
    found = await fetch(op, "queues")
    assert found["server"].startswith("redis://127.0.0.1:")
    assert (found["total"], found["registered"]) == (2, 2)
    row, other_row = found["queues"]
    assert (other_row["name"], other_row["ready"], other_row["paused"]) == ("other", 1, True)
    numbers = {name: row[name] for name in ("ready", "delayed", "leased", "leases", "dead", "paused")}
    assert numbers == {"ready": 1, "delayed": 1, "leased": 2, "leases": 1, "dead": 1, "paused": False}
    assert 0 <= row["oldest_age"] < 60


async def test_queues_are_found_by_a_part_of_their_name_and_read_page_by_page(
    op: httpx.AsyncClient, queues: str, secured_url: str
) -> None:
    for number in range(60):
        with LeasedQueue(secured_url, f"Q{number:02}") as queue:
            queue.publish("x")
    first, second = (
        await fetch(op, "queues", sort="name", turn="up"),
        await fetch(op, "queues", sort="name", turn="up", offset=50),
    )
    assert [row["name"] for row in first["queues"] + second["queues"]] == [f"Q{number:02}" for number in range(60)]
    found = await fetch(op, "queues", search="q5")
    assert (found["total"], found["registered"]) == (10, 60)


async def test_totals_and_order_cover_all_queues_not_only_the_page(
    op: httpx.AsyncClient, queues: str, secured_url: str
) -> None:
    for number in range(120):
        with LeasedQueue(secured_url, f"q{number:03}") as queue:
            queue.publish_many(["x"] * (1 + number % 7))
            if number == 119:
                queue.publish_many(["x"] * 100, delay=600)
                queue.claim()
    while (first := await fetch(op, "queues", sort="delayed"))["counted"] < 120:
        pass  # a busy machine counts the others for the next request
    ready = sum(1 + number % 7 for number in range(120)) - 1
    assert first["sums"] == {"ready": ready, "leased": 1, "delayed": 100, "dead": 0, "isolated": 0}
    assert first["holding"] == {"ready": 119, "leased": 1, "delayed": 1, "dead": 0, "isolated": 0}
    assert (first["counted"], first["total"], len(first["queues"])) == (120, 120, 50)
    assert first["queues"][0]["name"] == "q119"
    assert 0 <= first["age"] < 60
    last = await fetch(op, "queues", sort="ready", turn="up", offset=100)
    assert last["sums"] == first["sums"]
    assert [row["ready"] for row in last["queues"]] == [6] * 3 + [7] * 17
    found = await fetch(op, "queues", search="Q11")
    assert (found["total"], found["sums"]["delayed"]) == (10, 100)


async def test_a_damaged_queue_is_named_and_hides_no_other(
    op: httpx.AsyncClient, queue: Any, queues: str, secured_url: str
) -> None:
    queue.publish("fine")
    with LeasedQueue(secured_url, "damaged") as damaged:
        damaged.publish("x")
        damaged.client.delete("rmq:{damaged}:ready")
        damaged.client.set("rmq:{damaged}:ready", "foreign")
    broken, fine = (await fetch(op, "queues"))["queues"]
    assert "another type" in broken["error"]
    assert fine["ready"] == 1


async def test_leases_name_the_try_that_holds_them(op: httpx.AsyncClient, queue: Any, queues: str) -> None:
    queue.publish_many([*"abcd"])
    held = queue.claim(lease_id="etl/run/load/5", owner="airflow:etl/run/load/5/2", max_messages=3, lease=30)
    queue.ack(held, held.messages[:1])
    queue.claim(owner="worker", lease=60)
    shown = await fetch(op, "queue", name=QUEUE)
    assert shown["lacks"] == {}
    first, second = shown["listed"]
    assert first["holder"]["href"] == "/dags/etl/runs/run/tasks/load/mapped/5?try_number=2"
    assert (first["count"], first["settled"]) == (3, 1)
    (deadline,) = [info.deadline for info in queue.admin.leases() if info.id == "etl/run/load/5"]
    assert first["deadline"] == pytest.approx(deadline.timestamp() * 1000, abs=1)
    assert (second["owner"], second["holder"]) == ("worker", None)


async def test_a_lease_is_released_from_the_owner_that_was_shown(
    op: httpx.AsyncClient, queue: Any, queues: str
) -> None:
    queue.publish_many([*"abc"])
    held = queue.claim(lease_id="etl/run/load/-1", owner="airflow:etl/run/load/-1/1", max_messages=3, lease=3600)
    queue.ack(held, held.messages[:1])
    (shown,) = (await fetch(op, "queue", name=QUEUE))["listed"]
    assert await change(op, "release", lease_id=shown["id"], owner=shown["owner"]) == {"released": 2}
    assert queue.stats()[:5] == (2, 0, 0, 0, 0)
    with pytest.raises(LeaseLost):
        queue.ack(held)


async def test_a_lease_that_has_a_new_owner_is_not_released_and_the_page_reports_it(
    op: httpx.AsyncClient, queue: Any, queues: str
) -> None:
    queue.publish_many([*"abc"])
    held = queue.claim(lease_id="etl/run/load/-1", owner="airflow:etl/run/load/-1/2", max_messages=3)
    wish = {"queue": QUEUE, "lease_id": held.id, "owner": "airflow:etl/run/load/-1/1"}
    other = await op.post(f"{API}/release", json=wish)
    assert other.status_code == 409
    assert "nothing was released: it is owned by 'airflow:etl/run/load/-1/2'" in other.json()["detail"]
    queue.ack(held)
    for lease_id in (held.id, "unheard-of"):
        gone = await op.post(f"{API}/release", json={**wish, "lease_id": lease_id})
        assert (gone.status_code, gone.json()["detail"]) == (409, ENDED_MEANWHILE)
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


async def test_a_redrive_without_a_selection_is_refused_and_does_not_redrive_all(
    op: httpx.AsyncClient, doomed: Any
) -> None:
    bury(doomed, "a")
    answer = await op.post(f"{API}/redrive", json={"queue": QUEUE, "message_ids": []})
    assert answer.status_code == 422
    assert doomed.stats().dead == 1


async def test_the_page_reaches_only_connections_of_queues(
    op: httpx.AsyncClient, stored: Callable[..., str], queues: str
) -> None:
    stored("website", conn_type="http", host="example.test")
    listed = (await op.get("/api/connections")).json()["connections"]
    assert [connection["id"] for connection in listed] == [CONNECTION]
    for conn_id in ("website", "nowhere"):
        answer = await op.get(f"/api/connections/{conn_id}/queues")
        assert answer.status_code == 404
        assert "[rmq] connections" in answer.json()["detail"]


async def test_a_connection_that_cannot_be_listed_is_named_in_the_configuration(
    op: httpx.AsyncClient, connection: str, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish("x")
    monkeypatch.setenv("AIRFLOW__RMQ__CONNECTIONS", f"missing, {connection}")
    listed = (await op.get("/api/connections")).json()["connections"]
    assert [(each["id"], each["source"]) for each in listed] == [
        ("missing", "[rmq] connections"),
        (connection, "[rmq] connections"),
    ]
    assert (await op.get(f"/api/connections/{connection}/queues")).json()["queues"][0]["ready"] == 1
    missing = await op.get("/api/connections/missing/queues")
    assert (missing.status_code, "missing" in missing.json()["detail"]) == (404, True)


async def test_an_invalid_connection_is_reported_with_what_is_wrong(
    op: httpx.AsyncClient, stored: Callable[..., str]
) -> None:
    stored("odd", conn_type="redis_queue", extra='{"url": "http://host"}')
    answer = await op.get("/api/connections/odd/queues")
    assert answer.status_code == 400
    assert "scheme" in answer.json()["detail"]


async def test_an_unreachable_server_is_reported(op: httpx.AsyncClient, stored: Callable[..., str]) -> None:
    stored("gone", conn_type="redis_queue", host="127.0.0.1", port=1)
    answer = await op.get("/api/connections/gone/queues")
    assert answer.status_code == 503
    assert answer.json()["kind"] == "QueueUnavailable"
    assert "did not answer" in answer.json()["detail"]


async def test_a_request_to_a_server_that_hangs_times_out(op: httpx.AsyncClient, stored: Callable[..., str]) -> None:
    server = start_server("7.0")
    try:
        stored("hanging", conn_type="redis_queue", host="127.0.0.1", port=server.port)
        assert (await op.get("/api/connections/hanging/queues")).status_code == 200
        server.pause()
        for path in ("queues", f"queue?name={QUEUE}"):
            answer = await op.get(f"/api/connections/hanging/{path}")
            assert answer.status_code == 503
        server.resume()
        assert (await op.get("/api/connections/hanging/queues")).status_code == 200
    finally:
        server.stop()
