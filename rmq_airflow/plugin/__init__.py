"""The page "Queues" in Airflow's UI, and the background work of an API server.

Law: schedulers, triggerers and workers load every plugin, so loading this one must cost nothing. They load only this
file and `paths`. Only an API server requests the application, and the first request to the page imports the page.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

from rmq_airflow.paths import PREFIX, base_path


class RmqPlugin(AirflowPlugin):
    """Register the application and its entry in the navigation."""

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
    def operator_extra_links(self) -> list[Any]:  # type: ignore[override]  # only an API server reads it
        return [import_module("rmq_airflow.plugin.links").FoundLink()]

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]  # only an API server reads it, on an instance
        lazy = import_module("rmq_airflow.plugin.lazy")
        return [{"app": lazy.LazyApp(), "url_prefix": PREFIX, "name": "RMQ"}]
