"""The page "Queues" in Airflow's UI, and what an API server does beside it.

Law: schedulers, triggerers and workers load every plugin, and pay nothing for this one. All that is loaded with it is
this file; an API server asks for the application, and the page itself is imported by its first request.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowPlugin, conf

PREFIX = "/rmq"


def base_path() -> str:
    """The path under which Airflow is served, without a slash at its end; empty at the root of a host."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


class RmqPlugin(AirflowPlugin):
    """Registers the application and its place in the navigation."""

    name = "rmq"
    external_views = [  # noqa: RUF012  Airflow's own form
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

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]  # only an API server asks, of an instance
        lazy = import_module("rmq_airflow.plugin.lazy")
        return [{"app": lazy.LazyApp(), "url_prefix": PREFIX, "name": "RMQ"}]
