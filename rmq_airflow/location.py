"""Read the location of a Redis server from an Airflow connection. Pure: it makes no look-up and opens no connection.

There are three ways to give the location: the extra `url`, a URL in `host`, or `host` + `port` + `db`. Two of them at
once are refused, and so is none: Airflow loses the host of some URIs without an error, and the local server would be
another one than the user wrote. The TLS extras have the names that Airflow's Redis provider gives them, so that a
`redis` connection works here unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

from rmq_airflow import extras
from rmq_core import ConfigurationError, LeasedConfig, RedisSettings, Unsupported

CONNECTION_TYPE = "redis_queue"
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
NEED_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_password")
NO_HOST = (
    "the host is missing: fill in the field for the host, or the extra `url`. A connection in the form of a URI is "
    "written redis-queue://user:password@host:6379/?db=0, with a hyphen: the scheme of a URI contains no underscore, "
    "and Airflow finds no host in redis_queue://host:6379"
)
FOR_LEASED = ("lease", "max_deliveries")


class ConnectionLike(Protocol):
    """The fields that Airflow's Connection classes (models and task SDK) share."""

    conn_id: Any
    conn_type: Any
    host: Any
    port: Any
    schema: Any
    login: Any
    password: Any
    extra: Any


class Location(NamedTuple):
    """The content of a connection.

    settings: where the server is and how to log in. discipline: the discipline of the connection's queues. config: the
    configuration of a leased queue if the DAG gives none; sensors also use it to reclaim expired leases.
    traced: whether the queues make spans of OpenTelemetry.
    """

    settings: RedisSettings
    discipline: str
    config: LeasedConfig
    traced: bool = False


def read(connection: ConnectionLike) -> Location:
    """Check the whole connection and return its content.

    Raises ConfigurationError, which names the field or extra that is wrong.
    """
    ours = connection.conn_type == CONNECTION_TYPE
    extra = extras.read(_extra_of(connection), strict=ours)
    if not ours and not extra.get("ssl"):
        # Without TLS, the Redis provider ignores these extras, but its form stores them anyway.
        extra = {name: value for name, value in extra.items() if name not in NEED_TLS}
    discipline, traced = extra.get("discipline", "leased"), extra.get("traced", False)
    return Location(_settings(connection, extra), discipline, _config(extra), traced)


def check_leased(discipline: str, what: str) -> None:
    """Raise Unsupported unless `discipline` is `leased`; `what` names the feature that only leased queues have."""
    if discipline != "leased":
        raise Unsupported(discipline, what, ("leased",))


def _extra_of(connection: ConnectionLike) -> dict[str, Any]:
    """Return the extras, parsed without a call to Airflow."""
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise ConfigurationError("the connection's `extra` must be a JSON object")
    return extra


def _settings(connection: ConnectionLike, extra: Mapping[str, Any]) -> RedisSettings:
    options: dict[str, Any] = {name: extra[name] for name in OPTIONS if name in extra}
    url = _url(connection, extra)
    if extra.get("ssl") and not url.startswith("rediss:"):
        options["tls"] = True
    _check_tls(url, extra)
    made = RedisSettings.from_url(
        url, username=connection.login or None, password=connection.password or None, **options
    )
    _check_database(url, made, options)
    return made


def _config(extra: Mapping[str, Any]) -> LeasedConfig:
    given = {name: extra[name] for name in FOR_LEASED if name in extra}
    if given and extra.get("discipline", "leased") != "leased":
        raise ConfigurationError(
            f"extra `{next(iter(given))}` is for the discipline leased, and extra `discipline` says "
            f"{extra['discipline']}: leave one of them out"
        )
    return LeasedConfig(**given)


def _url(connection: ConnectionLike, extra: Mapping[str, Any]) -> str:
    host = str(connection.host or "")
    url = extra.get("url") or (host if "://" in host else "")
    if not url:
        if not host:
            raise ConfigurationError(NO_HOST)
        return _plain(connection, extra, host)
    _check_alone(connection, extra)
    if _has_credentials(url):
        raise ConfigurationError(
            "the URL contains a user or a password: put those of Redis into the fields for user and "
            "password, and the others into the extras `ssl_password`, `sentinel_username` and `sentinel_password`, "
            "which Airflow masks"
        )
    return url


def _check_alone(connection: ConnectionLike, extra: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if another field or extra gives the server's location besides the URL."""
    where = "extra `url`" if "url" in extra else "the URL in the field for the host"
    others = {"the host": connection.host if "url" in extra else None, "the port": connection.port}
    if twice := [field for field, value in others.items() if value]:
        raise ConfigurationError(f"{where} names the server, and so does the field for {twice[0]}: clear one")
    if extra.get("cluster"):
        raise ConfigurationError(f"extra `cluster` is for a host and port; with {where} write redis+cluster://")


def _check_tls(url: str, extra: Mapping[str, Any]) -> None:
    if extra.get("ssl") or url.startswith("rediss:") or "tls=" in url:
        return
    for name in NEED_TLS:
        if name in extra:
            raise ConfigurationError(f"extra `{name}` needs TLS: set extra `ssl` to true, or leave `{name}` out")


def _check_database(url: str, made: RedisSettings, options: Mapping[str, Any]) -> None:
    if "db" not in options:
        return
    others = {name: value for name, value in options.items() if name != "db"}
    of_url = RedisSettings.from_url(url, username=made.username, password=made.password, **others).db
    if of_url not in (0, made.db):
        raise ConfigurationError(f"extra `db` says {made.db} and the URL says {of_url}: leave one of them out")


def _has_credentials(url: str) -> bool:
    options = {name for name, _ in parse_qsl(url.partition("?")[2])}
    return "@" in url.partition("://")[2].partition("/")[0] or not options.isdisjoint(CREDENTIALS)


def _plain(connection: ConnectionLike, extra: Mapping[str, Any], host: str) -> str:
    address = f"{f'[{host}]' if ':' in host else host}:{connection.port or 6379}"
    if extra.get("cluster"):
        return f"redis+cluster://{','.join([address, *extra.get('startup_nodes', '').split(',')]).strip(',')}"
    scheme = "rediss" if extra.get("ssl") else "redis"
    database = "" if "db" in extra or not connection.schema else f"/{connection.schema}"
    return f"{scheme}://{address}{database}"
