"""One server, one `rmq serve` and one browser for the drills."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome

from tests.airflow.browser import chromium
from tests.drills import stopwatch
from tests.drills.scene import ROOT, Scene
from tests.drills.stopwatch import Drill
from tests.drills.worker import MAX_DELIVERIES
from tests.serve.screen import ServedScreen
from tests.servers import start_server
from tests.servers.process import DIES_WITH_US, Server

RMQ = (sys.executable, "-m", "rmq_core.cli")


@pytest.fixture(scope="package")
def drill_redis() -> Iterator[Server]:
    server = start_server("7.0")
    yield server
    server.stop()


@pytest.fixture
def scene(drill_redis: Server) -> Iterator[Scene]:
    """An empty server without a limit."""
    with drill_redis.client() as client:
        client.config_set("maxmemory", 0)
        client.flushall()
    made = Scene(drill_redis)
    yield made
    made.end()


class Terminal:
    """A shell in which an engineer types commands."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.drill = Drill("", "terminal")

    def drills(self, name: str) -> Drill:
        """Start the clock."""
        self.drill = stopwatch.start(name, "terminal")
        return self.drill

    def __call__(self, line: str, *, code: int = 0, url: str = "") -> str:
        """Run `rmq ...` and return what it prints, on both of its outputs."""
        self.drill.act()
        words = [*RMQ, *shlex.split(line)]
        environment = {**os.environ, "RMQ_URL": url or self.url, "COLUMNS": "200"}
        done = subprocess.run(words, check=False, env=environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def rmq(drill_redis: Server) -> Terminal:
    return Terminal(drill_redis.url)


@pytest.fixture(scope="package")
def served(drill_redis: Server) -> Iterator[str]:
    """The address of `rmq serve`, which may change queues."""
    options = ["--url", drill_redis.url, "--port", "0", "--allow-changes", "--set", f"max_deliveries={MAX_DELIVERIES}"]
    words = [*DIES_WITH_US, *RMQ, "serve", *options, "--audit", os.devnull]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stderr is not None
    yield process.stderr.readline().split()[0].rstrip("/")
    process.terminate()
    process.communicate()


@pytest.fixture(scope="package")
def driver() -> Iterator[Chrome]:
    browser = chromium.start()
    yield browser
    browser.quit()


class Mouse(ServedScreen):
    """A browser whose clicks are counted."""

    drill = Drill("", "console")

    def drills(self, name: str) -> Drill:
        """Start the clock, at the overview of all queues."""
        self.drill = stopwatch.start(name, "console")
        return self.drill

    def click(self, selector: str) -> None:
        self.drill.act()
        super().click(selector)

    def push(self, text: str) -> None:
        """Click the button with this text."""
        self.drill.act()
        self.button(text).click()

    def confirm(self, told: str) -> None:
        """Click the button of the question, and wait for the report."""
        self.click("dialog .primary, dialog .danger")
        self.shows(told, "#toasts")

    def type(self, text: str, selector: str) -> None:
        """Type into a field."""
        self.drill.act()
        self.find(selector).send_keys(text)


@pytest.fixture
def mouse(driver: Chrome, served: str, scene: Scene) -> Iterator[Mouse]:
    del scene  # which empties the database
    shown: Any = Mouse(driver, served)
    shown.size(1400, 900)
    yield shown
    driver.get("about:blank")
