"""The console on a port of this process, and the screen of a user of it."""

from __future__ import annotations

import threading
import time
from urllib.parse import quote

import uvicorn
from selenium.webdriver import Chrome

from rmq_console import create_app
from tests.airflow.browser.screen import Screen
from tests.console.host import PLACE, Kept, make_host


class ConsoleServer:
    """The console for the Redis at a URL; `url` is its address."""

    def __init__(self, redis_url: str) -> None:
        self.audit = Kept()
        config = uvicorn.Config(create_app(make_host(redis_url, self.audit)), port=0, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(20)


class ConsoleScreen(Screen):
    """A browser on the console."""

    def __init__(self, driver: Chrome, server: ConsoleServer) -> None:
        super().__init__(driver, server)  # type: ignore[arg-type]
        self.server = server

    def log_in(self, role: str, *, dark: bool = False) -> None:
        """Log in as the user of that name, whose system prefers light or dark colours."""
        self.driver.get(f"{self.server.url}/static/icon-light.svg")
        self.driver.delete_all_cookies()
        self.driver.add_cookie({"name": "X-User", "value": role, "path": "/"})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, *path: str) -> None:
        """Open a queue, or a part of it; without a path, all queues."""
        self.driver.get("about:blank")
        parts = "/".join(quote(part, safe="") for part in (PLACE, *path))
        self.driver.get(f"{self.server.url}/#/{parts}")
        self.find("#bar *")
