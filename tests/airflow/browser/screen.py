"""The page as a user sees it: what is written where, and what can be clicked or typed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.airflow.browser.airflow import ApiServer

PATIENCE_S = 300
UNREACHABLE = "status of 503"  # the page is told so on purpose when Redis is away


class Screen:
    """One browser on one Airflow."""

    def __init__(self, driver: Chrome, airflow: ApiServer) -> None:
        self.driver, self.airflow = driver, airflow

    def log_in(self, role: str, *, dark: bool = False) -> None:
        """Become the user of that role, with Airflow in light or dark mode."""
        self.driver.get(f"{self.airflow.url}/api/v2/version")
        self.driver.delete_all_cookies()
        self.driver.add_cookie({"name": "_token", "value": self.airflow.token(role), "path": "/"})
        self.run("localStorage.clear(); localStorage.setItem('theme', arguments[0])", "dark" if dark else "light")

    def open(self, *path: str) -> None:
        """The page of the plugin without Airflow around it, which takes a second to load, at this address."""
        self.driver.get("about:blank")  # or the browser would only change the address of a page that it shows
        self.driver.get(f"{self.airflow.url}/rmq/{_fragment(path)}")
        self.find("#bar *")

    def open_in_airflow(self, *path: str) -> None:
        """Airflow's page of the plugin, and in it the part of the page under this address."""
        self.driver.get(f"{self.airflow.url}/plugin/rmq")
        self.enter()
        if path:
            self.run("location.hash = arguments[0]", _fragment(path))

    def enter(self) -> None:
        """Look into the frame."""
        self.driver.switch_to.default_content()
        self.driver.switch_to.frame(self.find("iframe"))
        self.find("#bar *")

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def find(self, selector: str) -> WebElement:
        """The first element, as soon as it is there and shown."""
        return self.wait(lambda: next((each for each in self.all(selector) if each.is_displayed()), None), selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def shows(self, text: str, selector: str = "body") -> None:
        """Wait until it is written there."""
        self.wait(lambda: text in self.find(selector).text, f"{text!r} in {selector}")

    def click(self, selector: str) -> None:
        """Click the first element once it stands still: what loads above it pushes it away under the pointer."""
        self.wait(lambda: self._still(selector), selector).click()

    def _still(self, selector: str) -> WebElement | None:
        found = self.find(selector)
        place = found.rect
        time.sleep(0.1)
        return found if found.rect == place else None

    def button(self, text: str) -> WebElement:
        """The button that says so."""
        return self.wait(
            lambda: next((each for each in self.all("button") if text in each.text and each.is_displayed()), None), text
        )

    def press(self, *keys: str) -> None:
        """Keys on whatever has the focus."""
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def tile(self, kind: str) -> str:
        """The number of a tile, such as `ready`."""
        return self.text(f".tile.{kind} .tile-number")

    def rows(self) -> list[str]:
        """The names in the overview, from above; in one look, for rows are made anew all the time."""
        return [
            str(name) for name in self.run("return [...document.querySelectorAll('a.name')].map((e) => e.innerText)")
        ]

    def wait(self, look: Callable[[], Any], what: str = "") -> Any:
        """What `look` returns once that is something."""
        patience = WebDriverWait(self.driver, PATIENCE_S, 0.1, [StaleElementReferenceException])
        try:
            return patience.until(lambda _: look())
        except TimeoutException:
            shown = self.run("return document.body.innerText")
            raise AssertionError(f"waited for {what} at {self.driver.current_url}, which shows:\n{shown}") from None

    def complaints(self, but: str = UNREACHABLE) -> list[str]:
        """What the browser found wrong with our page, not with Airflow's, since it was asked last."""
        found = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [text for text in found if "/rmq/" in text and UNREACHABLE not in text and but not in text]


def _fragment(path: tuple[str, ...]) -> str:
    return "#/" + "/".join(quote(part, safe="") for part in path)
