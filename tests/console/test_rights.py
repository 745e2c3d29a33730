"""Every route of the console: who may use it, that no foreign page can, and that changes are audited."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from rmq_console import create_app
from rmq_core import LeasedQueue
from rmq_core.admin.verbs import Verb, offered
from tests.console.conftest import API, FROM_PAGE, QUEUE, Asking, bury, post
from tests.console.host import Kept, make_host

NEEDED = {"queue": {}, "lease": {"lease_id": "held", "owner": "worker"}, "owner": {}, "message": {"message_id": "m"}}


def needed(verb: Verb) -> dict[str, Any]:
    return NEEDED[verb.needs] | {each.name: each.kind("1") for each in verb.takes if each.required}


CHANGES: dict[str, dict[str, Any]] = {
    **{verb.word: needed(verb) for verb in offered()},
    "redrive": {"where": {"reason": "bad"}},
    "purge": {"target": "dead", "confirm": QUEUE, "where": {"reason": "bad"}},
    "discard": {"message_ids": ["m"]},
    "edit": {"message_id": "m", "payload": "{}"},
    "mark": {"text": "deployed 1.4"},
    "move": {"target": "aside"},
}
ASKED: dict[str, dict[str, Any]] = {
    part: {"target": "dead", "where": {"text": "x"}} for part in ("search", "count")
}  # fmt: skip
SEEN: dict[str, dict[str, str]] = {
    "messages": {"target": "dead"},
    "groups": {},
    "reasons": {},
    "lease": {"lease_id": "held"},
    "export": {"target": "dead"},
    "why": {"message_id": "m"},
}
COUNTED: dict[str, dict[str, str]] = {"queue": {}, "history": {}}
FOREIGN = [
    {},
    {"Sec-Fetch-Site": "cross-site", **FROM_PAGE},
    {"Sec-Fetch-Site": "same-site", **FROM_PAGE},
    {"Origin": "https://evil.test", **FROM_PAGE},
    {"Origin": "null", **FROM_PAGE},
]


@pytest.fixture
def scene(queue: LeasedQueue) -> LeasedQueue:
    """A queue with a dead letter and a lease."""
    bury(queue, "bad")
    queue.publish("x")
    queue.claim(lease_id="held", owner="worker", lease=3600)
    return queue


def wished(part: str) -> dict[str, Any]:
    return {"queue": QUEUE, **{**CHANGES, **ASKED}[part]}


def test_these_tests_know_every_route_of_the_console(redis_url: str) -> None:
    app = create_app(make_host(redis_url, Kept()))
    prefix = "/api/connections/{connection_id}/"
    found = {
        (route.path.removeprefix(prefix), method)
        for route in app.routes
        if isinstance(route, APIRoute) and route.path.startswith(prefix)
        for method in route.methods
    }
    posted = {(part, "POST") for part in CHANGES | ASKED}
    assert found == posted | {(part, "GET") for part in SEEN | COUNTED | {"queues": {}}}


async def test_nobody_sees_anything(asking: Asking, scene: LeasedQueue) -> None:
    for part in (*SEEN, *COUNTED, "queues"):
        answer = await asking().get(f"{API}/{part}", params={"name": QUEUE, **SEEN.get(part, {})})
        assert answer.status_code == 401, part


async def test_nobody_changes_anything(asking: Asking, scene: LeasedQueue, audit: Kept) -> None:
    before = scene.stats()[:5]
    for part in (*CHANGES, *ASKED):
        assert (await asking(**FROM_PAGE).post(f"{API}/{part}", json=wished(part))).status_code == 401, part
        assert (scene.stats()[:5], audit.lines) == (before, []), part


@pytest.mark.parametrize("part", SEEN)
async def test_messages_need_the_right_to_see_them(asking: Asking, scene: LeasedQueue, part: str) -> None:
    query = {"name": QUEUE, **SEEN[part]}
    refused = await asking("counter").get(f"{API}/{part}", params=query)
    assert (refused.status_code, refused.json()["detail"]) == (403, "no right to messages")
    assert (await asking("viewer").get(f"{API}/{part}", params=query)).status_code == 200


@pytest.mark.parametrize("part", COUNTED)
async def test_numbers_need_no_right_to_see_messages(asking: Asking, scene: LeasedQueue, part: str) -> None:
    answer = await asking("counter").get(f"{API}/{part}", params={"name": QUEUE, **COUNTED[part]})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("user", "scheme", "error"), [("counter", "", "no right to the server"), ("reader", "redis", "WRONGTYPE")]
)
async def test_the_server_and_errors_that_may_name_it_need_a_right(
    asking: Asking, scene: LeasedQueue, redis_url: str, user: str, scheme: str, error: str
) -> None:
    with LeasedQueue(redis_url, "broken") as broken:
        broken.publish("x")
        broken.client.delete("rmq:{broken}:ready")
        broken.client.set("rmq:{broken}:ready", "foreign")
    client = asking(user)
    listed = (await client.get(f"{API}/queues")).json()
    (row,) = (row for row in listed["queues"] if row["name"] == "broken")
    failed = await client.get(f"{API}/queue", params={"name": "broken"})
    assert (failed.status_code, listed["server"].partition(":")[0]) == (502, scheme)
    assert [error in text for text in (row["error"], failed.json()["detail"])] == [True, True]


async def test_a_search_needs_the_right_to_see_messages(asking: Asking, scene: LeasedQueue) -> None:
    refused = await post(asking("counter", **FROM_PAGE), "search", 403, **ASKED["search"])
    assert refused["detail"] == "no right to messages"
    await post(asking("viewer", **FROM_PAGE), "search", **ASKED["search"])


@pytest.mark.parametrize("user", ["counter", "viewer"])
async def test_a_change_needs_the_right_to_change(asking: Asking, scene: LeasedQueue, audit: Kept, user: str) -> None:
    before, client = scene.stats()[:5], asking(user, **FROM_PAGE)
    for part in CHANGES:
        refused = await post(client, part, 403, **CHANGES[part])
        assert refused["detail"] == "no right to change", part
        assert (scene.stats()[:5], audit.lines) == (before, []), part


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_foreign_page_can_neither_change_nor_search(
    asking: Asking, scene: LeasedQueue, audit: Kept, headers: dict[str, str]
) -> None:
    before, client = scene.stats()[:5], asking("changer", **headers)
    for part in (*CHANGES, *ASKED):
        assert (await client.post(f"{API}/{part}", json=wished(part))).status_code == 403, part
        assert (scene.stats()[:5], audit.lines) == (before, []), part


@pytest.mark.parametrize("part", CHANGES)
async def test_a_change_is_written_to_the_audit_log_before_and_after(
    page: httpx.AsyncClient, scene: LeasedQueue, audit: Kept, part: str
) -> None:
    answer = await page.post(f"{API}/{part}", json=wished(part))
    before, after = audit.lines
    assert before["event"] == after["event"] == f"rmq_{part.replace('-', '_')}"
    assert (before["user"], before["queue"], before["connection_id"]) == ("changer", QUEUE, "redis")
    assert before["outcome"].startswith("not known")
    assert after["outcome"].startswith("done: " if answer.status_code == 200 else "failed: ")


async def test_a_change_that_cannot_be_audited_is_not_made(
    page: httpx.AsyncClient, scene: LeasedQueue, audit: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "broken", True)
    before = scene.stats()
    for part in CHANGES:
        assert (await page.post(f"{API}/{part}", json=wished(part))).status_code == 500, part
        after = scene.stats()
        assert (before[:5], before.paused) == (after[:5], after.paused), part


async def test_a_change_of_an_unknown_queue_is_refused(page: httpx.AsyncClient, scene: LeasedQueue) -> None:
    for part in CHANGES:
        wish = {**wished(part), "queue": "nowhere", **({"confirm": "nowhere"} if part == "purge" else {})}
        answer = await page.post(f"{API}/{part}", json=wish)
        assert (answer.status_code, "'nowhere'" in answer.json()["detail"]) == (404, True), part
