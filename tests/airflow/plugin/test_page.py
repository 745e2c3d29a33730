"""What the page shows to its users and does for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import redis.asyncio

from rmq_core import LeasedConfig, LeasedQueue, LeaseLost, open_queue
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
    first = await fetch(op, "queues", sort="delayed")
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


async def test_queues_that_need_attention_come_first(op: httpx.AsyncClient, doomed: Any, secured_url: str) -> None:
    doomed.publish("fine")
    for name in ("broken", "buried", "late", "paused", "steady"):
        with LeasedQueue(secured_url, name, LeasedConfig(max_deliveries=1)) as queue:
            queue.publish_many(["x", "y"])
            if name == "buried":
                queue.nack(queue.claim())
            if name == "late":
                queue.claim(lease=0.001)
            if name == "paused":
                queue.admin.pause()
            if name == "broken":
                queue.client.delete("rmq:{broken}:ready")
                queue.client.set("rmq:{broken}:ready", "foreign")
    found = await fetch(op, "queues")
    assert [row["name"] for row in found["queues"]] == ["broken", "buried", "late", "paused", "steady", QUEUE]
    assert [row["attention"] for row in found["queues"]] == [True] * 4 + [False] * 2
    assert found["attention"] == 4
    assert [row.get("late") for row in found["queues"]] == [None, False, True, False, False, False]


async def test_a_page_of_a_thousand_queues_is_returned_quickly_with_current_numbers(
    op: httpx.AsyncClient, queue: Any, queues: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmq_core.console import survey

    names = [f"q{number:04}" for number in range(1000)]
    queue.client.sadd("rmq:queues", *names)
    monkeypatch.setattr(survey, "FIRST_S", 0)  # a fast machine counts them all in little time
    monkeypatch.setattr(survey, "AGAIN_S", 0.05)
    queue.publish("x")
    found = await fetch(op, "queues", sort="ready")
    assert found["counted"] < found["total"] == 1001
    monkeypatch.setattr(survey, "FIRST_S", 0.05)
    for _ in range(200):
        if found["counted"] == 1001:
            break
        found = await fetch(op, "queues", sort="ready")
    assert (found["counted"], found["queues"][0]["name"]) == (1001, QUEUE)
    queue.publish_many([*"abc"])
    found = await fetch(op, "queues", sort="ready")
    assert (found["queues"][0]["ready"], found["sums"]["ready"]) == (4, 4)


@pytest.mark.parametrize("wish", [{"sort": "size"}, {"turn": "sideways"}])
async def test_an_unknown_order_is_refused(op: httpx.AsyncClient, queues: str, wish: dict[str, str]) -> None:
    assert (await op.get(f"{API}/queues", params=wish)).status_code == 422


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


async def test_a_lease_without_an_owner_is_released_as_shown(op: httpx.AsyncClient, queue: Any, queues: str) -> None:
    queue.publish("x")
    queue.claim(owner="")
    (shown,) = (await fetch(op, "queue", name=QUEUE))["listed"]
    assert await change(op, "release", lease_id=shown["id"], owner="") == {"released": 1}


async def test_leases_are_read_page_by_page(op: httpx.AsyncClient, queue: Any, queues: str) -> None:
    queue.publish_many([str(number) for number in range(7)])
    for number in range(7):
        queue.claim(lease_id=f"l{number}", lease=60 + number)
    found = await fetch(op, "queue", name=QUEUE, offset=3, count=2)
    assert [lease["id"] for lease in found["listed"]] == ["l3", "l4"]
    assert found["leases"] == 7


async def test_browsing_messages_claims_none(op: httpx.AsyncClient, queue: Any, queues: str) -> None:
    queue.publish_many([{"n": number} for number in range(3)], headers={"airflow-dag-id": "etl"})
    found = await fetch(op, "messages", name=QUEUE, target="ready", count=2)
    assert found["total"] == 3
    assert [json.loads(message["payload"])["n"] for message in found["messages"]] == [0, 1]
    assert found["messages"][0]["headers"] == {"airflow-dag-id": "etl"}
    assert queue.stats().ready == 3
    assert queue.claim().message.deliveries == 1


async def test_delayed_messages_come_with_their_due_times(op: httpx.AsyncClient, queue: Any, queues: str) -> None:
    queue.publish("later", delay=60)
    (message,) = (await fetch(op, "messages", name=QUEUE, target="delayed"))["messages"]
    assert message["due"] - message["enqueued_at"] == pytest.approx(60_000, abs=1)


async def test_dead_letters_come_with_reason_and_history(op: httpx.AsyncClient, doomed: Any) -> None:
    bury(doomed, "a", "b")
    newest, oldest = (await fetch(op, "messages", name=QUEUE, target="dead"))["messages"]
    assert (newest["history"][0]["reason"], oldest["history"][0]["reason"]) == ("bad b", "bad a")
    assert newest["history"][0]["holder"]["names"] == ["etl", "load"]
    assert newest["headers"] == {"from": "test"}


async def test_chosen_dead_letters_are_redriven_and_the_others_stay(op: httpx.AsyncClient, doomed: Any) -> None:
    bury(doomed, *"abc")
    letters = {letter.payload["name"]: letter.id for letter in doomed.admin.dead_letters()}
    assert await change(op, "redrive", message_ids=[letters["b"]]) == {"redriven": 1}
    assert doomed.claim().message.payload == {"name": "b"}
    assert [letter.payload["name"] for letter in doomed.admin.dead_letters()] == ["c", "a"]


async def test_all_dead_letters_are_redriven_at_once(op: httpx.AsyncClient, doomed: Any) -> None:
    bury(doomed, *"abc")
    assert await change(op, "redrive") == {"redriven": 3}
    assert doomed.stats()[:5] == (3, 0, 0, 0, 0)


async def test_a_redrive_without_a_selection_is_refused_and_does_not_redrive_all(
    op: httpx.AsyncClient, doomed: Any
) -> None:
    bury(doomed, "a")
    answer = await op.post(f"{API}/redrive", json={"queue": QUEUE, "message_ids": []})
    assert answer.status_code == 422
    assert doomed.stats().dead == 1


@pytest.mark.parametrize("confirm", ["", "Work", "work ", "other"])
async def test_nothing_is_purged_unless_the_name_was_typed(
    op: httpx.AsyncClient, queue: Any, queues: str, confirm: str
) -> None:
    queue.publish("x")
    answer = await op.post(f"{API}/purge", json={"queue": QUEUE, "target": "ready", "confirm": confirm})
    assert answer.status_code == 400
    assert "type the name" in answer.json()["detail"]
    assert queue.stats().ready == 1


async def test_a_purge_deletes_only_what_it_names(op: httpx.AsyncClient, doomed: Any) -> None:
    bury(doomed, "a", "b")
    doomed.publish("ready")
    doomed.publish("later", delay=60)
    assert await change(op, "purge", target="dead", confirm=QUEUE) == {"purged": 2}
    assert doomed.stats()[:5] == (1, 1, 0, 0, 0)


@pytest.mark.parametrize("target", ["completed", "leases", "", "dead "])
async def test_only_what_the_page_shows_can_be_purged(op: httpx.AsyncClient, queues: str, target: str) -> None:
    wish = {"queue": QUEUE, "target": target, "confirm": QUEUE}
    assert (await op.post(f"{API}/purge", json=wish)).status_code == 422


async def test_an_unknown_queue_is_not_found(op: httpx.AsyncClient, queues: str) -> None:
    answer = await op.get(f"{API}/queue", params={"name": "nowhere"})
    assert answer.status_code == 404
    assert "'nowhere'" in answer.json()["detail"]


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


async def test_of_a_million_messages_only_those_shown_are_fetched(
    op: httpx.AsyncClient, queue: Any, queues: str
) -> None:
    queue.publish_many([f"m{number}" for number in range(100)])
    copy = (
        "local e = redis.call('LRANGE', KEYS[1], 0, 99) for i = 1, 9999 do redis.call('LPUSH', KEYS[1], unpack(e)) end"
    )
    queue.client.eval(copy, 1, "rmq:{work}:ready")
    assert (await fetch(op, "queues"))["queues"][0]["ready"] == 1_000_000
    for offset in (0, 500_000, 999_990):
        before = queue.client.info("stats")["total_net_output_bytes"]
        found = await fetch(op, "messages", name=QUEUE, target="ready", offset=offset)
        assert queue.client.info("stats")["total_net_output_bytes"] - before < 100_000
        assert (found["total"], len(found["messages"])) == (1_000_000, min(25, 1_000_000 - offset))


async def test_an_unreachable_server_is_reported(op: httpx.AsyncClient, stored: Callable[..., str]) -> None:
    stored("gone", conn_type="redis_queue", host="127.0.0.1", port=1)
    answer = await op.get("/api/connections/gone/queues")
    assert answer.status_code == 503
    assert answer.json()["kind"] == "QueueUnavailable"
    assert "did not answer" in answer.json()["detail"]


async def test_a_timeout_on_closing_a_connection_does_not_discard_the_answer(
    op: httpx.AsyncClient, queue: Any, queues: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    async def aclose(self: Any) -> None:
        closed.append(self)
        await self.connection_pool.disconnect()
        raise redis.TimeoutError("Timed out closing connection after 2.0")

    monkeypatch.setattr(redis.asyncio.Redis, "aclose", aclose)
    queue.publish_many(["x", "y"])
    assert (await fetch(op, "queues"))["sums"]["ready"] == 2
    assert await change(op, "purge", target="ready", confirm=QUEUE) == {"purged": 2}
    assert len(closed) == 2


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


@pytest.mark.parametrize(
    ("discipline", "payload", "leases"),
    [("reliable", "x", 0), ("rotation", "x", 0), ("streams", {"n": 1}, 0), ("jobs", {"n": 1}, 1)],
)
async def test_queues_of_every_discipline_are_shown_with_what_they_support(
    op: httpx.AsyncClient, queues: str, secured_url: str, discipline: str, payload: Any, leases: int
) -> None:
    queue = open_queue(secured_url, QUEUE, discipline)
    try:
        queue.publish(payload)
        (row,) = (await fetch(op, "queues"))["queues"]
        assert (row["discipline"], row["ready"]) == (discipline, 1)
        (message,) = (await fetch(op, "messages", name=QUEUE, target="ready"))["messages"]
        assert str(payload).strip("{}")[-1] in message["payload"]
        assert queue.claim(owner="worker") is not None
        shown = await fetch(op, "queue", name=QUEUE)
        assert (shown["ready"], shown["leased"]) == (0, 1)
        assert {"browse", "redrive_some", "release_lease"} <= shown["lacks"].keys()
        assert ("leases" in shown["lacks"]) == (leases == 0)
        assert [lease["owner"] for lease in shown["listed"]] == ["worker"] * leases
        wishes = {"redrive": {"message_ids": ["m"]}, "release": {"lease_id": "l", "owner": "worker"}}
        for route, wish in wishes.items():
            refused = await op.post(f"{API}/{route}", json={"queue": QUEUE, **wish})
            assert refused.status_code == 400
            assert "; use leased" in refused.json()["detail"]
    finally:
        queue.close()
