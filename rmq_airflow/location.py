"""An Airflow connection read as the location of a Redis server. Pure: nothing is looked up, opened or asked.

Three ways to write one, the first that is given wins: extra `url`, a URL in `host`, or `host` + `port` + `db`. The
TLS extras have the names that Airflow's Redis provider gives them, so that a `redis` connection works here as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl

from rmq_core import ConfigurationError, LeasedConfig, RedisSettings, Unsupported

OPTIONS = (
    "db",
    "ssl_cert_reqs",
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_check_hostname",
    "ssl_password",
    "sentinel_username",
    "sentinel_password",
)
CREDENTIALS = {"username", "password", "ssl_password", "sentinel_username", "sentinel_password"}


class ConnectionLike(Protocol):
    """The fields that Airflow's Connection classes (models and task SDK) share."""

    conn_id: Any
    host: Any
    port: Any
    schema: Any
    login: Any
    password: Any
    extra: Any


def extra_of(connection: ConnectionLike) -> dict[str, Any]:
    """The connection's extras, read without asking Airflow; ConfigurationError when they are no JSON object."""
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise ConfigurationError(f"connection {connection.conn_id!r}: its `extra` must be a JSON object")
    return extra


def settings_of(connection: ConnectionLike, extra: Mapping[str, Any]) -> RedisSettings:
    """Where the server is and how to log in; ConfigurationError names the field that is wrong."""
    options: dict[str, Any] = {name: extra[name] for name in OPTIONS if extra.get(name) not in (None, "")}
    url = _url(connection, extra)
    if _true(extra.get("ssl")) and not url.startswith("rediss:"):
        options["tls"] = True
    return RedisSettings.from_url(
        url, username=connection.login or None, password=connection.password or None, **options
    )


def config_of(extra: Mapping[str, Any]) -> LeasedConfig:
    """The configuration of a queue for which a DAG gives none, and the one sensors reclaim expired leases by."""
    defaults: dict[str, Any] = {}
    for name, kind in (("lease", float), ("max_deliveries", int)):
        if extra.get(name) not in (None, ""):
            try:
                defaults[name] = kind(extra[name])
            except (TypeError, ValueError) as error:
                raise ConfigurationError(f"the connection's extra `{name}` must be a number") from error
    return LeasedConfig(**defaults)


def discipline_of(extra: Mapping[str, Any]) -> str:
    """The discipline that keeps the connection's queues, `leased` unless it says otherwise."""
    return str(extra.get("discipline") or "leased")


def check_leased(discipline: str, what: str) -> None:
    """Unsupported, for a component that needs `what`, which only leased queues have."""
    if discipline != "leased":
        raise Unsupported(discipline, what, ("leased",))


def _url(connection: ConnectionLike, extra: Mapping[str, Any]) -> str:
    host = str(connection.host or "")
    url = str(extra.get("url") or "") or (host if "://" in host else "")
    if not url:
        return _plain(connection, extra, host or "localhost")
    if _has_credentials(url):
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: take the user and password out of the URL and put them into "
            "the fields for them, or those of TLS and of sentinels into extras of the same names, which Airflow masks"
        )
    return url


def _has_credentials(url: str) -> bool:
    options = {name for name, _ in parse_qsl(url.partition("?")[2])}
    return "@" in url.partition("://")[2].partition("/")[0] or not options.isdisjoint(CREDENTIALS)


def _plain(connection: ConnectionLike, extra: Mapping[str, Any], host: str) -> str:
    scheme = "rediss" if _true(extra.get("ssl")) else "redis"
    address = f"[{host}]" if ":" in host else host
    database = "" if extra.get("db") not in (None, "") or not connection.schema else f"/{connection.schema}"
    return f"{scheme}://{address}:{connection.port or 6379}{database}"


def _true(value: object) -> bool:
    return str(value).lower() in ("1", "true", "yes", "on")
