"""Take the screenshots of the documentation again: `python -m tests.dagster.screenshots docs/images`."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions as expected
from selenium.webdriver.support.wait import WebDriverWait

from rmq_core import LeasedQueue
from tests.airflow.browser import chromium
from tests.faults.dagster.deployment import Deployment, deployed
from tests.faults.patience import eventually
from tests.servers import start_server
from tests.servers.postgres import running_postgres

MODULE = "tests.dagster.showcase"
URL = "RMQ_SHOWCASE_URL"
TURNS, LIVE_S, PATIENCE_S = 10, 15, 300
SETTLE_S = 5  # content that loads later has arrived, and animations have ended


class Pictures:
    """A browser on one deployment, and the folder for its screenshots."""

    def __init__(self, driver: Chrome, deployment: Deployment, folder: Path) -> None:
        self.driver, self.deployment, self.folder = driver, deployment, folder

    def take(self, name: str, page: str, shows: str, press: str | None = None) -> None:
        """Open a page, wait until it shows a text, press a button, and save it."""
        self.driver.get(f"{self.deployment.url}/{page}")
        WebDriverWait(self.driver, PATIENCE_S).until(lambda driver: shows in body(driver))
        if press:
            self.press(press)
        time.sleep(SETTLE_S)
        self.driver.save_screenshot(str(self.folder / f"dagster-{name}.png"))

    def welcome(self) -> None:
        """Dismiss what Dagster asks a new user."""
        self.driver.get(self.deployment.url)
        self.press("Skip")

    def press(self, button: str) -> None:
        """Click the button with this text, if it exists."""
        found = (By.XPATH, f"//button[.//*[text()='{button}'] or text()='{button}']")
        WebDriverWait(self.driver, PATIENCE_S).until(expected.element_to_be_clickable(found)).click()


def body(driver: Chrome) -> str:
    return str(driver.execute_script("return document.body.innerText"))


def live_through(deployment: Deployment, url: str) -> None:
    """Create some runs of the past, then messages for which the sensor requests runs."""
    from tests.dagster import showcase

    work, observe = (showcase.defs.resolve_job_def(name) for name in ("work", "observe"))
    with LeasedQueue(url, showcase.QUEUE, showcase.CONFIG) as queue:
        for turn in range(TURNS):
            queue.publish_many([f"s3://arrivals/{turn}/{n}.parquet" for n in range(random.randrange(20, 160))])
            observe.execute_in_process(instance=deployment.instance)
            work.execute_in_process(instance=deployment.instance)
        queue.nack(queue.claim(), reason="ArrowInvalid: Parquet magic bytes not found in footer")
        for _ in range(3):
            queue.publish_many([f"s3://arrivals/live/{n}.parquet" for n in range(150)])
            time.sleep(LIVE_S / 3)
        eventually(lambda: not sum(queue.stats()[:3]))
    eventually(lambda: all(run.is_finished for run in deployment.instance.get_runs()))


def main(folder: str) -> None:
    """Start everything, take the screenshots, stop everything."""
    pictures = Path(folder)
    pictures.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ends:
        redis = start_server("7.0")
        ends.callback(redis.stop)
        os.environ[URL] = redis.url
        home = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        postgres = ends.enter_context(running_postgres())
        deployment = ends.enter_context(deployed(home, postgres, MODULE, {}))
        live_through(deployment, redis.url)
        driver = chromium.start(1440, 1250)
        ends.callback(driver.quit)
        camera = Pictures(driver, deployment, pictures)
        camera.welcome()
        camera.take("asset", "assets/loaded?view=overview", "rmq/claimed", press="Plots")
        camera.take("queue-asset", "assets/arrivals_queue?view=overview", "rmq/depth", press="Plots")
        camera.take("checks", "assets/loaded?view=checks", "arrivals_depth")
        camera.take("sensor", f"locations/{MODULE}/sensors/arrivals_doorbell", "arrivals_doorbell")


if __name__ == "__main__":
    main(sys.argv[1])
