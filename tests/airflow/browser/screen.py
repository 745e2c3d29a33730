"""The page as a user sees it: the text it shows, and what can be clicked or typed."""

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
UNREACHABLE = "status of 503"  # the page gets this status on purpose when Redis is unreachable

# One call tests all elements at the same moment: while the page fades in, a call per element can skip the first ones.
FIRST_SHOWN = """
const options = { checkOpacity: true, checkVisibilityCSS: true };
const shown = (each) => each.checkVisibility(options) && each.getClientRects().length;
return [...document.querySelectorAll(arguments[0])].find(shown) ?? null;
"""


class Screen:
    """One browser on one Airflow."""

    def __init__(self, driver: Chrome, airflow: ApiServer) -> None:
        self.driver, self.airflow = driver, airflow

    def log_in(self, role: str, *, dark: bool = False) -> None:
        """Log in as the user of that role, with Airflow in light or dark mode."""
        self.driver.get(f"{self.airflow.url}/api/v2/version")
        self.driver.delete_all_cookies()
        self.driver.add_cookie({"name": "_token", "value": self.airflow.token(role), "path": "/"})
        self.run("localStorage.clear(); localStorage.setItem('theme', arguments[0])", "dark" if dark else "light")

    def open(self, *path: str) -> None:
        """Open this address of the plugin's page without Airflow around it, which takes a second to load."""
        self.driver.get("about:blank")  # otherwise the browser only changes the address of the shown page
        self.driver.get(f"{self.airflow.url}/rmq/{_fragment(path)}")
        self.find("#bar *")

    def open_in_airflow(self, *path: str) -> None:
        """Open Airflow's page of the plugin, and in it the part of the page with this address."""
        self.driver.get(f"{self.airflow.url}/plugin/rmq")
        self.enter()
        if path:
            self.run("location.hash = arguments[0]", _fragment(path))

    def enter(self) -> None:
        """Switch to the frame of the plugin."""
        self.driver.switch_to.default_content()
        self.driver.switch_to.frame(self.find("iframe"))
        self.find("#bar *")

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def find(self, selector: str) -> WebElement:
        """Return the first matching element, as soon as it exists and is displayed."""
        return self.wait(lambda: self.run(FIRST_SHOWN, selector), selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def shows(self, text: str, selector: str = "body") -> None:
        """Wait until the element contains this text."""
        self.wait(lambda: text in self.find(selector).text, f"{text!r} in {selector}")

    def click(self, selector: str) -> None:
        """Click the first matching element once it no longer moves: content that loads above it shifts it."""
        self.wait(lambda: self._still(selector), selector).click()

    def _still(self, selector: str) -> WebElement | None:
        found = self.find(selector)
        place = found.rect
        time.sleep(0.1)
        return found if found.rect == place else None

    def button(self, text: str) -> WebElement:
        """Return the button with this text."""
        return self.wait(
            lambda: next((each for each in self.all("button") if text in each.text and each.is_displayed()), None), text
        )

    def press(self, *keys: str) -> None:
        """Send keys to the element that has the focus."""
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def tile(self, kind: str) -> str:
        """Return the number of a tile, such as `ready`."""
        return self.text(f".tile.{kind} .tile-number")

    def rows(self) -> list[str]:
        """Return the names in the overview from top to bottom, in one call because rows are rebuilt all the time."""
        return [
            str(name) for name in self.run("return [...document.querySelectorAll('a.name')].map((e) => e.innerText)")
        ]

    def wait(self, check: Callable[[], Any], what: str = "") -> Any:
        """Return the result of `check` once it is truthy."""
        patience = WebDriverWait(self.driver, PATIENCE_S, 0.1, [StaleElementReferenceException])
        try:
            return patience.until(lambda _: check())
        except TimeoutException:
            shown = self.run("return document.body.innerText")
            raise AssertionError(f"waited for {what} at {self.driver.current_url}, which shows:\n{shown}") from None

    def complaints(self, but: str = UNREACHABLE) -> list[str]:
        """Return the errors that the browser reported for our page, not for Airflow's, since the last call."""
        found = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [text for text in found if "/rmq/" in text and UNREACHABLE not in text and but not in text]


def _fragment(path: tuple[str, ...]) -> str:
    return "#/" + "/".join(quote(part, safe="") for part in path)
