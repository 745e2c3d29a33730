"""The page "Queues" in Airflow's UI.

Law: schedulers, triggerers and workers load every plugin, and pay nothing for this one. All that is loaded with it is
this file; the page itself is imported by its first request, which only an API server gets.
"""

from __future__ import annotations

import asyncio
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowPlugin, conf

PREFIX = "/rmq"


class LateApp:
    """An ASGI application that is imported when it is first asked for something; until it can be, nothing is served."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = await asyncio.to_thread(_page)
        await app(scope, receive, send)


@cache
def _page() -> Any:
    return import_module("rmq_airflow.plugin.app").app


def base_path() -> str:
    """The path under which Airflow is served, without a slash at its end; empty at the root of a host."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


class RmqPlugin(AirflowPlugin):
    """Registers the application and its place in the navigation."""

    name = "rmq"
    fastapi_apps = [{"app": LateApp(), "url_prefix": PREFIX, "name": "RMQ"}]  # noqa: RUF012  Airflow's own form
    external_views = [  # noqa: RUF012
        {
            "name": "Queues",
            "href": f"{base_path()}{PREFIX}/",
            "icon": f"{base_path()}{PREFIX}/static/icon-light.svg",
            "icon_dark_mode": f"{base_path()}{PREFIX}/static/icon-dark.svg",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "rmq",
        }
    ]
