"""Search, dead letters by reason, changes of a selection, the messages of a lease, and export."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import pytest

from rmq_console import changes, searches
from rmq_core import LeasedConfig, LeasedQueue, open_queue
from rmq_core.transfer.exporting import ExportFile
from rmq_core.transfer.importing import Import, ImportOptions
from tests.console.conftest import API, QUEUE, Asking, bury, fetch, fill_dead, post
from tests.console.host import Kept

TIMEOUTS = [f"TimeoutError: no answer of host-{number} after {number}.5 s" for number in range(3)]


def isolate(queue: LeasedQueue, payloads: list[str]) -> None:
    """Make messages fail together, so that they are isolated."""
    with LeasedQueue(queue.client, QUEUE, LeasedConfig(max_deliveries=5)) as many:
        many.publish_many(payloads)
        many.nack(many.claim(max_messages=len(payloads)))


def ids(found: Any) -> list[str]:
    return [message["id"] for message in found["messages"]]


async def test_one_lease_is_shown_while_it_lasts_and_its_ack_afterwards(
    page: httpx.AsyncClient, queue: LeasedQueue
) -> None:
    queue.publish_many([*"abc"])
    lease = queue.claim(owner="task:etl/load", lease_id="etl/1", max_messages=2)
    queue.claim(owner="other")
    assert lease is not None
    shown = await fetch(page, "queue", lease_id="etl/1")
    assert ([each["id"] for each in shown["listed"]], shown["acked"], shown["leases"]) == (["etl/1"], None, 2)
    queue.ack(lease)
    shown = await fetch(page, "queue", lease_id="etl/1")
    assert (shown["listed"], shown["acked"]["acked"], shown["acked"]["owner"]) == ([], 2, "task:etl/load")
    assert shown["acked"]["holder"]["names"][0] == "etl"
    unheard = await fetch(page, "queue", lease_id="unheard-of")
    assert (unheard["listed"], unheard["acked"]) == ([], None)


@pytest.mark.parametrize(
    "where",
    [
        {"text": "Łódź"},
        {"header": "tenant"},
        {"header": "tenant=7"},
        {"text": "Łódź", "header": "tenant=7"},
    ],
)
async def test_a_message_is_found_by_its_payload_and_headers(
    page: httpx.AsyncClient, queue: LeasedQueue, where: dict[str, str]
) -> None:
    queue.publish_many([{"city": "Paris"}, {"city": "Rome"}])
    wanted = queue.publish({"city": "Łódź"}, headers={"tenant": "7"}).id
    found = await post(page, "search", target="ready", where=where)
    assert (ids(found), found["scanned"], found["total"]) == ([wanted], 3, 3)
    assert found["messages"][0]["headers"] == {"tenant": "7"}
    by_id = await post(page, "search", target="ready", where={"message_id": wanted})
    assert ids(by_id) == [wanted]


async def test_a_search_goes_on_page_by_page_and_tells_how_far_it_is(
    page: httpx.AsyncClient, queue: LeasedQueue
) -> None:
    queue.publish_many([{"n": number} for number in range(2500)])
    scanned, found, after = [], [], None
    while not scanned or after is not None:
        answer = await post(page, "search", target="ready", where={"text": '"n":7'}, after=after)
        after = answer["after"]
        scanned.append((answer["scanned"], answer["total"]))
        found += ids(answer)
    assert scanned[:3] == [(1000, 2500), (2000, 2500), (2500, 2500)]
    assert len(found) == 1 + 10 + 100


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"where": {}}, 400),
        ({"where": {"text": ""}}, 400),
        ({"where": {"text": "x"}, "after": "nonsense"}, 400),
        ({"where": {"text": "x"}, "target": "completed"}, 422),
        ({"where": {"dedup_key": "x"}}, 400),
    ],
)
async def test_a_search_for_nothing_is_refused(
    page: httpx.AsyncClient, queue: LeasedQueue, wish: dict[str, Any], status: int
) -> None:
    queue.publish("x")
    await post(page, "search", status, **{"target": "ready", **wish})


async def test_a_group_is_redriven_and_another_stays(page: httpx.AsyncClient, queue: LeasedQueue, audit: Kept) -> None:
    bury(queue, *TIMEOUTS, "bad row")
    group = (await fetch(page, "reasons"))["groups"][0]["reason"]
    assert await post(page, "redrive", where={"group": group}) == {
        "redriven": 3, "complete": True, "scanned": 4, "total": 4,
    }  # fmt: skip
    assert [letter.history[-1].reason for letter in queue.admin.dead_letters()] == ["bad row"]
    assert audit.lines[-1]["where"] == {"group": group}
    assert audit.lines[-1]["outcome"] == "done: dead letters made ready again: 3"


@pytest.mark.parametrize("slice_s", [0.0, 60.0])
@pytest.mark.parametrize("target", ["ready", "delayed", "dead"])
async def test_a_count_is_what_a_change_changes(
    page: httpx.AsyncClient, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch, slice_s: float, target: str
) -> None:
    monkeypatch.setattr(searches, "COUNTING_S", slice_s)
    bury(queue, "bad", payload="x")
    fill_dead(queue, 2499)
    isolate(queue, ["x"] * 5)
    queue.publish_many(["x", "y"] * 1200)
    queue.publish_many(["x", "y"] * 600, delay=3600)
    wish: dict[str, Any] = {"target": target, "where": {"text": "x"}}
    counted, asked, next_one = 0, 0, {"target": target}
    while next_one:
        found = await post(page, "count", **{**wish, **next_one})
        counted, asked, next_one = counted + found["count"], asked + 1, found["next"]
    assert counted == {"ready": 1205, "delayed": 600, "dead": 2500}[target]
    assert (asked > 1) is (slice_s == 0.0)
    assert (await post(page, "purge", confirm=QUEUE, **wish))["purged"] == counted


async def test_a_group_is_purged_only_after_the_name_was_typed(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    bury(queue, *TIMEOUTS, "bad row")
    wish = {"target": "dead", "where": {"reason": TIMEOUTS[0]}}
    await post(page, "purge", 400, confirm="", **wish)
    assert queue.stats().dead == 4
    assert (await post(page, "purge", confirm=QUEUE, **wish))["purged"] == 3
    assert queue.stats().dead == 1


async def test_a_long_redrive_is_answered_in_time_and_goes_on_with_the_next_request(
    page: httpx.AsyncClient, queue: LeasedQueue, audit: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SLICE_S", 0.0)
    letter = bury(queue, "bad")[0]
    fill_dead(queue, 2499)
    parts = []
    while not parts or not parts[-1]["complete"]:
        parts.append(await post(page, "redrive", where={"message_id": letter}))
    assert [part["redriven"] for part in parts] == [1000, 1000, 500]
    assert "and there may be more" in audit.lines[1]["outcome"]
    assert queue.stats()[:5] == (2500, 0, 0, 0, 0)


async def test_a_redrive_of_chosen_letters_that_meet_conditions_is_refused(
    page: httpx.AsyncClient, queue: LeasedQueue
) -> None:
    letters = bury(queue, "bad")
    await post(page, "redrive", 400, message_ids=letters, where={"reason": "bad"})
    assert queue.stats().dead == 1


async def test_the_messages_of_a_lease_are_listed_page_by_page(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    queue.publish_many([f"m{number}" for number in range(7)])
    held = queue.claim(max_messages=7, lease_id="l", owner="worker", lease=3600)
    assert held is not None
    queue.ack(held, held.messages[:2])
    found = await fetch(page, "lease", lease_id="l", offset=3, count=2)
    assert [message["payload"] for message in found["messages"]] == ["m3", "m4"]
    assert (await fetch(page, "lease", lease_id="nothing"))["messages"] == []
    assert str(held.token) not in json.dumps(found)


async def test_an_export_of_a_group_is_imported_into_another_queue(
    asking: Asking, queue: LeasedQueue, redis_url: str, audit: Kept
) -> None:
    bury(queue, *TIMEOUTS, "bad row")
    answer = await asking("viewer").get(
        f"{API}/export", params={"name": QUEUE, "target": "dead", "reason": TIMEOUTS[1]}
    )
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''work-dead.ndjson"
    assert [json.loads(line).get("payload") for line in answer.text.splitlines()[1:-1]] == [
        {"why": reason} for reason in TIMEOUTS
    ]
    assert audit.lines[-1]["outcome"] == "done: messages exported: 3"
    with LeasedQueue(redis_url, "copy", LeasedConfig()) as copy:
        Import(copy, "copy", ImportOptions()).run(ExportFile(io.BytesIO(answer.content)))
        assert copy.stats().dead == 3


async def test_the_name_of_an_exported_file_cannot_leave_its_header(page: httpx.AsyncClient, redis_url: str) -> None:
    name = 'a"; filename=evil/../x'
    with LeasedQueue(redis_url, name) as queue:
        queue.publish("x")
    answer = await page.get(f"{API}/export", params={"name": name, "target": "ready"})
    assert answer.headers["content-disposition"] == (
        "attachment; filename*=UTF-8''a%22%3B%20filename%3Devil%2F..%2Fx-ready.ndjson"
    )


async def test_an_export_of_what_a_discipline_does_not_keep_is_refused_before_the_file_begins(
    page: httpx.AsyncClient, redis_url: str
) -> None:
    with open_queue(redis_url, QUEUE, "rotation") as queue:
        queue.publish("x")
    answer = await page.get(f"{API}/export", params={"name": QUEUE, "target": "dead"})
    assert (answer.status_code, "dead messages" in answer.json()["detail"]) == (400, True)
