"""The console of `rmq serve` as a user sees it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

from selenium.webdriver import Chrome

from tests.airflow.browser.airflow import ApiServer
from tests.airflow.browser.screen import Screen

REFUSED = "status of 401"  # the page gets this status on purpose when a token is wrong


class ServedScreen(Screen):
    """One browser on one `rmq serve`."""

    def __init__(self, driver: Chrome, url: str) -> None:
        super().__init__(driver, cast("ApiServer", SimpleNamespace(url=url)))
        self.url = url

    def visit(self, *path: str) -> None:
        """Open the console at this address, or the login page that it leads to."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/#/{'/'.join(quote(part, safe='') for part in path)}")

    def open(self, *path: str) -> None:
        """Open the console at this address."""
        self.visit(*path)
        self.find("#bar *")

    def log_in(self, token: str, *, dark: bool = False) -> None:
        """Enter a token on the login page."""
        self.scheme("dark" if dark else "light")
        self.driver.get(f"{self.url}/login")
        self.driver.delete_all_cookies()
        self.find("#token").send_keys(token, "\n")

    def scheme(self, name: str) -> None:
        """Let the system prefer light or dark."""
        features = {"features": [{"name": "prefers-color-scheme", "value": name}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def troubles(self) -> list[Any]:
        """Return the errors that the browser reported since the last call."""
        found = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [text for text in found if REFUSED not in text and "favicon" not in text]
