"""The page as Airflow mounts it, requested by users of each of its roles; no process, no port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.airflow.conftest import CANARY

CONNECTION = "queues"
FROM_PAGE = {"X-RMQ-Request": "page"}
Asking = Callable[..., httpx.AsyncClient]


@pytest.fixture
def auth_manager(airflow_database: None) -> Any:
    """Airflow's own auth manager, initialised as in an API server."""
    from airflow.api_fastapi.app import init_auth_manager

    return init_auth_manager()


@pytest.fixture
def stored(airflow_database: None) -> Iterator[Callable[..., str]]:
    """Stores connections in the metadata database until the test ends: `stored("id", conn_type=…)` returns the id."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    made: list[str] = []

    def store(conn_id: str, **fields: Any) -> str:
        with create_session() as session:
            session.add(Connection(conn_id=conn_id, **fields))
        made.append(conn_id)
        return conn_id

    yield store
    with create_session() as session:
        session.execute(delete(Connection).where(Connection.conn_id.in_(made)))


@pytest.fixture
def queues(stored: Callable[..., str], secured_url: str) -> str:
    """A connection of the page to the server of the tests, with the canary as its password."""
    place = urlsplit(secured_url)
    login = {"login": "airflow", "password": CANARY}
    return stored(CONNECTION, conn_type="redis_queue", host=place.hostname, port=place.port, **login)


@pytest.fixture
def instances(airflow_database: None) -> Iterator[Any]:
    """Store task instances in the metadata database until the test ends."""
    from tests.airflow.plugin.instances import Instances

    made = Instances()
    yield made
    made.close()


@pytest.fixture
async def asking(auth_manager: Any) -> AsyncIterator[Asking]:
    """Make HTTP clients: `asking("op")` is logged in with that role, `asking()` is not logged in."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi import FastAPI

    from rmq_airflow.paths import PREFIX
    from rmq_airflow.plugin.lazy import LazyApp

    airflow = FastAPI()
    airflow.mount(PREFIX, LazyApp())
    opened: list[httpx.AsyncClient] = []

    def ask(role: str | None = None, **headers: str) -> httpx.AsyncClient:
        token = role and auth_manager.generate_jwt(SimpleAuthManagerUser(username=role, role=role))
        made = httpx.AsyncClient(
            transport=httpx.ASGITransport(airflow, raise_app_exceptions=False),
            base_url=f"http://airflow.test{PREFIX}",
            cookies={"_token": token} if token else {},
            headers=headers,
        )
        opened.append(made)
        return made

    yield ask
    for client in opened:
        await client.aclose()


@pytest.fixture
def op(asking: Asking) -> httpx.AsyncClient:
    """A client for our page whose user may edit connections."""
    return asking("OP", **FROM_PAGE)
