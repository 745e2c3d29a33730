"""The console without Airflow and without a port, asked by users of each right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from rmq_console import create_app
from rmq_core import LeasedConfig, LeasedQueue
from tests.console.host import PLACE, Kept, make_host

QUEUE = "work"
API = f"/api/connections/{PLACE}"
FROM_PAGE = {"X-RMQ-Request": "page"}
Asking = Callable[..., httpx.AsyncClient]


@pytest.fixture
def queue(redis_url: str) -> Iterator[LeasedQueue]:
    """A queue in which one failed delivery makes a dead letter."""
    with LeasedQueue(redis_url, QUEUE, LeasedConfig(max_deliveries=1)) as opened:
        yield opened


@pytest.fixture(scope="package")
def console(any_server_url: str) -> tuple[FastAPI, Kept]:
    """The console, and its audit log."""
    kept = Kept()
    return create_app(make_host(any_server_url, kept)), kept


@pytest.fixture
def audit(console: tuple[FastAPI, Kept]) -> Kept:
    console[1].lines.clear()
    return console[1]


@pytest.fixture
async def asking(redis_url: str, audit: Kept, console: tuple[FastAPI, Kept]) -> AsyncIterator[Asking]:
    """Make HTTP clients: `asking("viewer")` is a user with that right, `asking()` is nobody."""
    app = console[0]
    opened: list[httpx.AsyncClient] = []

    def ask(user: str | None = None, **headers: str) -> httpx.AsyncClient:
        made = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False),
            base_url="http://console.test",
            headers=headers | ({"X-User": user} if user else {}),
        )
        opened.append(made)
        return made

    yield ask
    for client in opened:
        await client.aclose()


@pytest.fixture
def page(asking: Asking) -> httpx.AsyncClient:
    """A client for our page whose user may change queues."""
    return asking("changer", **FROM_PAGE)


async def fetch(client: httpx.AsyncClient, part: str, **query: Any) -> Any:
    """Return the answer of a route that reads."""
    answer = await client.get(f"{API}/{part}", params={"name": QUEUE, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def post(client: httpx.AsyncClient, part: str, status: int = 200, **wish: Any) -> Any:
    """Return the answer of a route that gets a wish."""
    answer = await client.post(f"{API}/{part}", json={"queue": QUEUE, **wish})
    assert answer.status_code == status, answer.text
    return answer.json()


def bury(queue: Any, *reasons: str, payload: Any = None) -> list[str]:
    """Make a dead letter with each of these reasons; return their ids."""
    ids = []
    for reason in reasons:
        ids.append(queue.publish({"why": reason} if payload is None else payload).id)
        queue.nack(queue.claim(owner="task:etl/load"), reason=reason)
    return ids


def fill_dead(queue: Any, times: int) -> None:
    """Put a dead letter of the queue there so many times again."""
    again = "local e = redis.call('LINDEX', KEYS[1], 0) for _ = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], e) end"
    queue.client.eval(again, 1, f"rmq:{{{QUEUE}}}:dead", times)
