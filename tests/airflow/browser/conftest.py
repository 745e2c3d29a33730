"""One API server, one browser and one Redis for all of these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome

from rmq_core import LeasedConfig, LeasedQueue
from tests.airflow.browser import chromium
from tests.airflow.browser.airflow import ApiServer
from tests.airflow.browser.screen import Screen
from tests.servers import start_server
from tests.servers.process import Server

MAIN, EMPTY = "main", "spare"


@pytest.fixture(scope="package")
def main_redis() -> Iterator[Server]:
    server = start_server("7.0")
    yield server
    server.stop()


@pytest.fixture(scope="package")
def airflow(main_redis: Server) -> Iterator[ApiServer]:
    """An API server with two connections to one Redis: `main`, and `spare` to a database that stays empty."""
    place = {"conn_type": "redis_queue", "host": "127.0.0.1", "port": main_redis.port}
    server = ApiServer({MAIN: place, EMPTY: {**place, "extra": '{"db": 1}'}})
    yield server
    server.stop()


@pytest.fixture(scope="package")
def driver() -> Iterator[Chrome]:
    browser = chromium.start()
    yield browser
    browser.quit()


@pytest.fixture
def screen(driver: Chrome, airflow: ApiServer) -> Iterator[Screen]:
    """The screen of a user with the role Op. The test fails on every error of the page that the browser reports."""
    shown = Screen(driver, airflow)
    shown.log_in("op")
    shown.complaints()
    yield shown
    assert shown.complaints() == []


@pytest.fixture
def opened(main_redis: Server) -> Iterator[Callable[..., Any]]:
    """Queues on an empty server: `opened("name", max_deliveries=1)`."""
    with main_redis.client() as client:
        client.flushall()
    made: list[LeasedQueue] = []

    def open_queue(name: str, **config: Any) -> LeasedQueue:
        made.append(LeasedQueue(main_redis.url, name, LeasedConfig(**config)))
        return made[-1]

    yield open_queue
    for queue in made:
        queue.close()
