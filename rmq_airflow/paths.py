"""The paths under which Airflow serves itself and the page "Queues". Loading this must cost nothing: see `plugin`."""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import conf

PREFIX = "/rmq"


def base_path() -> str:
    """Return the path under which Airflow is served, without a trailing slash; empty at the root of a host."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
