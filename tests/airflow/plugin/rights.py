"""What a user may do on the page, asked from its routes, in the words of the tables of the documentation."""

from __future__ import annotations

import os
from pathlib import Path

import httpx

from tests.airflow.conftest import QUEUE

PAGE = Path(__file__).parents[3] / "docs/how-to/airflow-queues-page.md"
OPTION = "AIRFLOW__RMQ__NUMBERS_FOR_ALL_USERS"
FROM_PAGE = {"X-RMQ-Request": "page"}
NUMBERS = ("queues", "queue", "history")
MESSAGES = ("messages", "reasons", "export")
CHANGES = ("pause", "resume", "redrive", "mark")


def documented(auth_manager: str) -> dict[str, list[str]]:
    """Return the table of the documentation whose first head is the name of the auth manager: cells by user."""
    lines = PAGE.read_text("utf-8").splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith(f"| {auth_manager} |"))
    rows: dict[str, list[str]] = {}
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        user, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[user] = cells
    return rows


async def rights_of(client: httpx.AsyncClient, connection_id: str) -> list[str]:
    """Return whether the user opens the page, sees numbers, sees them with the option, sees messages, makes changes."""
    by_right = [await _asked(client, connection_id)]
    os.environ[OPTION] = "True"
    try:
        by_option = await _asked(client, connection_id)
    finally:
        del os.environ[OPTION]
    ((page, numbers, messages, changes),) = by_right
    assert [page, messages, changes] == [by_option[0], *by_option[2:]], "the option shows numbers only"
    return [page, numbers, by_option[1], messages, changes]


async def _asked(client: httpx.AsyncClient, connection_id: str) -> list[str]:
    api = f"/rmq/api/connections/{connection_id}"
    seen = {"name": QUEUE, "target": "dead"}
    wish = {"queue": QUEUE, "text": "tried"}
    page = [(await client.get("/rmq/")).status_code]
    numbers = [(await client.get(f"{api}/{part}", params=seen)).status_code for part in NUMBERS]
    messages = [(await client.get(f"{api}/{part}", params=seen)).status_code for part in MESSAGES]
    changes = [(await client.post(f"{api}/{part}", json=wish, headers=FROM_PAGE)).status_code for part in CHANGES]
    return [_cell(page), _cell(numbers), _cell(messages), _cell(changes)]


def _cell(statuses: list[int]) -> str:
    if set(statuses) == {200}:
        return "yes"
    assert set(statuses) <= {401, 403}, statuses
    return "no"
