"""What a user may do on the page *Queues*, asked from its routes."""

from __future__ import annotations

import os

import httpx

from tests.airflow.conftest import QUEUE

OPTION = "AIRFLOW__RMQ__NUMBERS_FOR_ALL_USERS"
FROM_PAGE = {"X-RMQ-Request": "page"}
NUMBERS = ("queues", "queue", "history")
MESSAGES = ("messages", "reasons", "export")
CHANGES = ("pause", "resume", "redrive", "mark")


async def rights_of(client: httpx.AsyncClient, connection_id: str) -> list[str]:
    """Return whether the user opens the page, sees numbers, sees them with the option, sees messages, makes changes.

    "yes" or "no" for each.
    """
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
