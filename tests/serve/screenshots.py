"""Renew the screenshots of `rmq serve`: `python -m tests.serve.screenshots docs/images`.

With `--all`, each view is taken at each width, light and dark, to look at.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from rmq_core.serve.app import PLACE
from rmq_core.serve.tokens import make
from tests.airflow.browser import chromium
from tests.airflow.browser.screenshots import Scene
from tests.serve.screen import ServedScreen
from tests.servers import start_server
from tests.servers.process import DIES_WITH_US

TRAFFIC_S = 40
RUN = "0b8c7e52-3c4c-4b6e-9f0e-1a2b3c4d5e6f"
WIDTHS = {400: 860, 800: 1000, 1440: 960}
SHOWN = {
    "overview-1440-light": "overview",
    "leases-1440-dark": "leases-dark",
    "overview-400-dark": "telephone-dark",
    "login-800-light": "login",
}
"""The screenshots that the documentation shows, and their names there."""


def take(screen: ServedScreen, scene: Scene, token: str, folder: Path) -> None:
    """Open each view light and dark at each width."""
    for dark in (False, True):
        for width, height in WIDTHS.items():
            ending = f"{width}-{'dark' if dark else 'light'}"
            screen.size(width, height)
            screen.scheme("dark" if dark else "light")
            screen.visit()
            screen.find("#token")
            save(screen, folder, f"login-{ending}")
            screen.log_in(token, dark=dark)
            screen.shows("images.thumbnails", "tbody")
            for turn in range(TRAFFIC_S // 4):
                scene.work(turn)
                time.sleep(1)
            save(screen, folder, f"overview-{ending}")
            for tab, queue in (("leases", "flights.delays"), ("dead", "flights.delays")):
                screen.open(PLACE, queue, tab)
                screen.find("main tbody tr")
                time.sleep(6)
                save(screen, folder, f"{tab}-{ending}")
            screen.button("Log out").click()
            screen.find("#token")


def save(screen: ServedScreen, folder: Path, name: str) -> None:
    time.sleep(0.6)  # animations have ended
    if "--all" in sys.argv:
        screen.driver.save_screenshot(str(folder / f"serve-{name}.png"))
    elif name in SHOWN:
        screen.driver.save_screenshot(str(folder / f"serve-{SHOWN[name]}.png"))


def main() -> None:
    """Start everything, take the screenshots, stop everything."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    token, line = make("change", "alice@example.org")
    (folder / "tokens").write_text(line)
    with ExitStack() as ends:
        redis = start_server("7.0")
        ends.callback(redis.stop)
        scene = Scene(redis.url)
        scene.queue("flights.delays").claim(owner=RUN, max_messages=5, lease=300)
        options = ["--url", redis.url, "--port", "0", "--allow-changes", "--tokens", str(folder / "tokens")]
        options += ["--link", "airflow=https://airflow.example.org", "--link", "dagster=https://dagster.example.org"]
        command = [*DIES_WITH_US, sys.executable, "-m", "rmq_core.cli", "serve", *options]
        served = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        ends.callback(served.wait)
        ends.callback(served.terminate)
        assert served.stderr is not None
        url = served.stderr.readline().split()[0].rstrip("/")
        browser = chromium.start(1440, 960)
        ends.callback(browser.quit)
        take(ServedScreen(browser, url), scene, token, folder)
    (folder / "tokens").unlink()


if __name__ == "__main__":
    main()
