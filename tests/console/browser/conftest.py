"""One Redis, one console and one browser for these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome

from rmq_core import LeasedConfig, LeasedQueue
from tests.airflow.browser import chromium
from tests.console.browser.served import ConsoleScreen, ConsoleServer
from tests.servers import start_server
from tests.servers.process import Server


@pytest.fixture(scope="package")
def console_redis() -> Iterator[Server]:
    server = start_server("7.0")
    yield server
    server.stop()


@pytest.fixture(scope="package")
def console(console_redis: Server) -> Iterator[ConsoleServer]:
    server = ConsoleServer(console_redis.url)
    yield server
    server.stop()


@pytest.fixture(scope="package")
def driver() -> Iterator[Chrome]:
    browser = chromium.start()
    yield browser
    browser.quit()


@pytest.fixture
def screen(driver: Chrome, console: ConsoleServer) -> Iterator[ConsoleScreen]:
    """The screen of a user who may change queues. The test fails on every error that the browser reports."""
    shown = ConsoleScreen(driver, console)
    shown.log_in("changer")
    shown.complaints()
    yield shown
    assert shown.complaints() == []
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def opened(console_redis: Server) -> Iterator[Callable[..., Any]]:
    """Queues on an empty server: `opened("name", max_deliveries=1)`."""
    with console_redis.client() as client:
        client.flushall()
    made: list[LeasedQueue] = []

    def open_queue(name: str, **config: Any) -> LeasedQueue:
        made.append(LeasedQueue(console_redis.url, name, LeasedConfig(**config)))
        return made[-1]

    yield open_queue
    for queue in made:
        queue.close()
