"""Who may see and do what; the roles are those of Airflow's SimpleAuthManager."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.airflow.conftest import CANARY, QUEUE
from tests.airflow.plugin.conftest import CONNECTION, FROM_PAGE, Asking

API = f"/api/connections/{CONNECTION}"
LOOKS = [f"{API}/queues", f"{API}/queue?name={QUEUE}"]
PAYLOADS = [f"{API}/messages?name={QUEUE}&target={target}" for target in ("ready", "delayed", "dead")]
CHANGES: list[tuple[str, dict[str, Any]]] = [
    (f"{API}/redrive", {"queue": QUEUE}),
    (f"{API}/release", {"queue": QUEUE, "lease_id": "held", "owner": "worker"}),
    (f"{API}/purge", {"queue": QUEUE, "target": "ready", "confirm": QUEUE}),
]


@pytest.fixture(autouse=True)
def some_work(queues: str, queue: Any) -> None:
    queue.publish("held", headers={"kind": "held"})
    queue.claim(lease_id="held", owner="worker")
    queue.publish_many(["secret payload", "another"])


async def every_answer(client: httpx.AsyncClient) -> dict[str, int]:
    """Return the status of every route below a connection."""
    answers = {path: (await client.get(path)).status_code for path in LOOKS + PAYLOADS}
    return answers | {path: (await client.post(path, json=wish)).status_code for path, wish in CHANGES}


async def test_a_user_who_is_not_logged_in_gets_nothing_from_any_route(asking: Asking) -> None:
    from rmq_airflow.plugin.app import app

    client = asking(None, **FROM_PAGE)
    paths = {route.path: route.methods for route in app.routes}  # type: ignore[attr-defined]
    assert len(paths) >= 8
    for path, methods in paths.items():
        for method in methods:
            answer = await client.request(method, path.format(name="main.js", connection_id=CONNECTION), json={})
            assert (answer.status_code, method) in {(401, method), (405, "HEAD")}, path


async def test_a_user_who_may_only_read_a_connection_sees_numbers_but_no_payloads_and_no_buttons(
    op: httpx.AsyncClient, auth_manager: Any, monkeypatch: pytest.MonkeyPatch, queue: Any
) -> None:
    asked = []

    def only_read(*, method: str, details: Any, user: Any) -> bool:
        asked.append((details.conn_id, user.get_name()))
        return method == "GET"

    monkeypatch.setattr(auth_manager, "is_authorized_connection", only_read)
    assert not (await op.get("/api/connections")).json()["connections"][0]["may_edit"]
    answers = await every_answer(op)
    assert {answers[path] for path in LOOKS} == {200}
    assert {status for path, status in answers.items() if path not in LOOKS} == {403}
    assert queue.stats().ready == 2
    assert set(asked) == {(CONNECTION, "OP")}


async def test_an_auth_manager_that_fails_denies_access(
    op: httpx.AsyncClient, auth_manager: Any, monkeypatch: pytest.MonkeyPatch, queue: Any
) -> None:
    def fail(**_: Any) -> bool:
        raise RuntimeError("no database")

    monkeypatch.setattr(auth_manager, "is_authorized_connection", fail)
    assert set((await every_answer(op)).values()) == {500}
    assert queue.stats().ready == 2


async def test_a_page_that_cannot_be_imported_serves_nothing(
    op: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmq_airflow.plugin import lazy

    def broken() -> Any:
        raise ImportError("Airflow moved its security module")

    monkeypatch.setattr(lazy, "_page", broken)
    assert (await op.get("/")).status_code == 500


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**FROM_PAGE, "Sec-Fetch-Site": "cross-site"},
        {**FROM_PAGE, "Sec-Fetch-Site": "same-site"},
        {**FROM_PAGE, "Sec-Fetch-Site": "none"},
        {**FROM_PAGE, "Origin": "http://evil.test"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://airflow.test"},
    ],
)
async def test_a_page_of_another_origin_changes_nothing_with_the_cookie_of_an_op(
    asking: Asking, headers: dict[str, str], queue: Any
) -> None:
    client = asking("OP", **headers)
    for path, wish in CHANGES:
        answer = await client.post(path, json=wish)
        assert answer.status_code == 403
        assert "Airflow's own pages" in answer.json()["detail"]
    assert queue.stats().ready == 2


def audited(event: str) -> tuple[str, dict[str, Any]]:
    """Return the user and the details in the newest entry of that event."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        entry = session.scalars(select(Log).where(Log.event == event).order_by(Log.id.desc())).first()
        assert entry is not None
        assert entry.extra is not None
        return str(entry.owner), json.loads(entry.extra)


OUTCOMES = ["dead letters made ready again: 0", "messages made ready again: 1", "ready messages deleted: 2"]


@pytest.mark.parametrize(("change", "outcome"), [*zip(CHANGES, OUTCOMES, strict=True)])
async def test_the_audit_log_records_who_changed_what_with_which_outcome(
    op: httpx.AsyncClient, change: tuple[str, dict[str, Any]], outcome: str
) -> None:
    path, wish = change
    assert (await op.post(path, json=wish)).status_code == 200
    owner, told = audited(f"rmq_{path.rpartition('/')[2]}")
    assert owner == "OP"
    assert told.items() >= {**wish, "connection_id": CONNECTION, "outcome": f"done: {outcome}"}.items()


async def test_a_change_whose_outcome_cannot_be_audited_is_made_and_reported_in_the_servers_log(
    op: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, queue: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from rmq_airflow.plugin import app as audit
    from rmq_console import UNKNOWN

    written = audit.create_session
    sessions = iter([written])

    def once(**options: Any) -> Any:
        return next(sessions)(**options)

    monkeypatch.setattr(audit, "create_session", once)
    path, wish = CHANGES[2]
    with caplog.at_level("WARNING", "rmq_console.host"):
        answer = await op.post(path, json=wish)
    assert answer.json() == {"purged": 2}
    assert "lacks the outcome of rmq_purge" in caplog.text
    assert "done: ready messages deleted: 2" in caplog.text
    assert audited("rmq_purge")[1]["outcome"] == UNKNOWN


async def test_no_answer_holds_a_credential_or_a_token(op: httpx.AsyncClient, queue: Any) -> None:
    lease = queue.claim(lease_id="dag/run/task/-1", owner="airflow:dag/run/task/-1/1")
    answers = [(await op.get(path)).text for path in ["/api/connections", *LOOKS, *PAYLOADS]]
    assert "dag/run/task" in answers[2]
    assert not [text for text in answers if CANARY in text or str(lease.token) in text]
