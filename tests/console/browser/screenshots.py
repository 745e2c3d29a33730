"""Renew the console's screenshots for the documentation: `python -m tests.console.browser.screenshots docs/images`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.airflow.browser import chromium
from tests.console.browser.scene import BUSY, make_scene
from tests.console.browser.served import ConsoleScreen, ConsoleServer
from tests.servers import start_server

HIGHEST = 1500


class View(NamedTuple):
    """A picture: its name, what it opens, what is clicked there, and its width; a height of 0 is that of the view."""

    name: str
    path: tuple[str, ...]
    clicks: tuple[str, ...] = ()
    width: int = 1280
    dark: bool = False
    height: int = 0


def take(folder: Path) -> None:
    """Write all pictures to a folder."""
    redis = start_server("7.0")
    queues = make_scene(redis.url)
    letter = queues[BUSY].admin.dead_letters()[0].id
    server, driver = ConsoleServer(redis.url), chromium.start(1280, 900)
    screen = ConsoleScreen(driver, server)
    reason = ".reasons tbody tr:nth-child(2) .deeds button"
    row = "table.dead tbody tr"
    views = (
        View("overview", ()),
        View("overview-telephone-dark", (), width=400, dark=True),
        View("reasons", (BUSY, "dead"), height=820),
        View("redrive", (BUSY, "dead"), (reason,), height=820, dark=True),
        View("edit", (BUSY, "dead"), (row, "tr.more .deeds button:nth-of-type(2)"), height=820),
        View("search", (BUSY, "search", "in=dead&by=reason&for=KeyError*"), (row,)),
        View("history", (BUSY, "history")),
        View("history-dark", (BUSY, "history"), ("button[data-span=day]",), dark=True),
        View("history-telephone", (BUSY, "history"), width=400, height=1100),
        View("lease", (BUSY, "leases"), ("tr.lease td:nth-child(2)",), width=800),
        View("why", (BUSY, "why", letter)),
    )
    for view in views:
        _take(screen, view, folder / f"console-{view.name}.png")
    driver.quit()
    server.stop()
    redis.stop()


def _take(screen: ConsoleScreen, view: View, file: Path) -> None:
    screen.log_in("changer", dark=view.dark)
    screen.resize(view.width, 900)
    screen.open(*view.path)
    for selector in view.clicks:
        screen.click(selector)
    time.sleep(6)  # for the live chart and the rates
    whole = int(screen.run("return document.querySelector('main').getBoundingClientRect().bottom + scrollY + 24"))
    screen.resize(view.width, view.height or min(HIGHEST, whole))
    time.sleep(0.5)
    screen.driver.save_screenshot(str(file))


if __name__ == "__main__":
    take(Path(sys.argv[1]))
