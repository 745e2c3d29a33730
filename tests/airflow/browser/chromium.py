"""Debian's Chromium, headless, driven by Selenium with a driver that is named, so that nothing is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

PACKAGES = ("chromium", "chromium-driver", "fonts-inter")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # which needs rights that containers do not give
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--lang=en-GB",
)


def find() -> tuple[str, str]:
    """Return the paths of browser and driver; with root rights, install them with apt when they are missing."""
    if None in _paths():
        _install()
    browser, driver = _paths()
    if browser is None or driver is None:
        message = f"the browser tests need chromium and chromedriver: apt-get install {' '.join(PACKAGES)}"
        raise RuntimeError(message)
    return browser, driver


def start(width: int = 1400, height: int = 900) -> Chrome:
    """A browser with an empty profile; the caller quits it."""
    browser, driver = find()
    options = ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=Service(driver))


def _paths() -> tuple[str | None, str | None]:
    return shutil.which("chromium"), shutil.which("chromedriver")


def _install() -> None:
    if os.geteuid() != 0:
        return
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
