"""The application that Airflow mounts. It exists at once; the code behind it is imported when it is needed.

Law: no failure of the plugin keeps an API server from starting, answering or stopping. Airflow enters the lifespan of a
mounted application only if it is a `FastAPI`. A thread that runs for that lifespan releases the leases of ended tasks.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from typing import Any

from fastapi import FastAPI

STOP_S = 6.0
log = logging.getLogger(__name__)


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=_release, args=(over,), name="rmq-releases", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        await asyncio.to_thread(thread.join, STOP_S)


def _release(over: threading.Event) -> None:
    try:
        import_module("rmq_airflow.plugin.releases").run(over)
    except Exception:
        log.exception(
            "This API server does not release the leases of ended tasks; their messages return when the leases expire."
        )


class LazyApp(FastAPI):
    """Serve the page. Each request imports the page unless it is loaded, and fails as long as the import fails."""

    def __init__(self) -> None:
        super().__init__(title="RMQ", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass requests to the page, and lifespan events to FastAPI."""
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        app = await asyncio.to_thread(_page)
        await app(scope, receive, send)


@cache
def _page() -> Any:
    return import_module("rmq_airflow.plugin.app").app
