"""The application that Airflow mounts. It is there at once; what it serves and does is imported when it is needed.

Law: an API server starts, answers and stops whatever becomes of us. Airflow enters the lifespan of a mounted
application only if it is a `FastAPI`; a thread that lives as long as that releases leases of tasks that have ended.
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
        log.exception("Leases of tasks that have ended are not released here; they return when they expire.")


class LazyApp(FastAPI):
    """Serves the page, which is imported by its first request; until it can be, nothing is served."""

    def __init__(self) -> None:
        super().__init__(title="RMQ", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Hand over to the page."""
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        app = await asyncio.to_thread(_page)
        await app(scope, receive, send)


@cache
def _page() -> Any:
    return import_module("rmq_airflow.plugin.app").app
