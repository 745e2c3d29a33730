"""Airflow's own page of connections, as far as a user of RMQ needs it."""

from __future__ import annotations

import time

from selenium.webdriver.remote.webelement import WebElement

from tests.airflow.browser.screen import Screen

RETRY_S = 30


class Connections:
    """The list, the form of a connection, and its test button."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen

    def open(self) -> None:
        """Open the list, and wait until it has rows."""
        self.screen.driver.get(f"{self.screen.airflow.url}/connections")
        self.screen.find("button[aria-label='Test Connection']")

    def edit(self, conn_id: str) -> None:
        """Open the form of a connection, with the fields of its type unfolded."""
        self._press(conn_id, "Edit Connection")
        self.screen.button("Extra Fields").click()
        self.screen.shows("Default lease", "[role=dialog]")

    def test(self, conn_id: str, answer: str) -> None:
        """Click the test button until Airflow shows the answer.

        Airflow may drop a click while it redraws the table, and it shows the answer for a few seconds only.
        """

        def shown() -> bool:
            self._press(conn_id, "Test Connection")
            until = time.monotonic() + RETRY_S
            while not (found := answer in self.screen.text("body")) and time.monotonic() < until:
                time.sleep(0.1)
            return found

        self.screen.wait(shown, answer)

    def _press(self, conn_id: str, label: str) -> None:
        def press() -> bool:
            button = self._row(conn_id).find_element("css selector", f"button[aria-label='{label}']")
            button.click()
            return True

        self.screen.wait(press, f"{label} of {conn_id}")

    def _row(self, conn_id: str) -> WebElement:
        def row() -> WebElement | None:
            return next((row for row in self.screen.all("tr") if row.text.startswith(f"{conn_id} ")), None)

        found: WebElement = self.screen.wait(row, conn_id)
        return found
