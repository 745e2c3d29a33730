"""Reads the location of a Redis server and the settings of queues from an Airflow connection, without a look-up. Pure.

Law: no extra is ignored silently. An unknown name, or a value that cannot work, raises a ConfigurationError that names
the extra, the accepted values and the closest match. Values may be text, as in a connection written as a URI.
Connections of other types, such as those of Airflow's Redis provider, may carry extras that have no meaning here.

There are three ways to give the location: the extra `url`, a URL in `host`, or `host` + `port` + `db`. Two of them at
once are refused, and so is none: Airflow loses the host of some URIs without an error, and the local server would be
another one than the user wrote. The TLS extras have the names that Airflow's Redis provider gives them, so that a
`redis` connection works here unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

from rmq_core import ConfigurationError, LeasedConfig, RedisSettings, Unsupported
from rmq_core.protocol import DISCIPLINES

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_CLOSE = 0.8  # from this similarity on, an unknown extra counts as a misspelt RMQ extra: "leese", not "timeout"


def read_extras(extra: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
    """Return the given extras, converted to their types; null and "" count as not given.

    With `strict`, raise ConfigurationError for every unknown name; otherwise only for a misspelt name of an RMQ extra.
    """
    given = {name: value for name, value in extra.items() if value not in (None, "")}
    for name in given.keys() - READERS.keys():
        if strict or _nearest(name, READERS, _CLOSE):
            raise ConfigurationError(
                f"unknown extra `{name}`{_nearest(name, READERS) or '.'} The extras are {', '.join(sorted(READERS))}."
                " User and password have fields of their own; options such as socket_timeout go into the query of `url`"
            )
    return {name: READERS[name](name, value) for name, value in given.items() if name in READERS}


def _nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    found = get_close_matches(name.lower(), list(known), n=1, cutoff=cutoff)
    return f", did you mean `{found[0]}`?" if found else ""


def _wrong(name: str, needed: str, value: object = None) -> ConfigurationError:
    """Return the error for a wrong value; pass `value`, which the text then shows, only if it is not a secret."""
    return ConfigurationError(f"extra `{name}` must be {needed}" + ("" if value is None else f", not {value!r}"))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, f"a text, not {type(value).__name__}")
    return value


def _flag(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in (*_TRUE, *_FALSE):
        raise _wrong(name, "true or false", value)
    return text in _TRUE


def _whole(minimum: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        number = _number(value)
        if number != number // 1 or number < minimum:
            raise _wrong(name, f"a whole number from {minimum} on", value)
        return int(number)

    return check


def _seconds(name: str, value: Any) -> float:
    number = _number(value)
    if not number > 0:
        raise _wrong(name, "a number of seconds such as 300, more than 0", value)
    return number


def _number(value: Any) -> float:
    """Return `value` as a float, or NaN, which equals nothing, if it is not a finite number. A bool gives NaN."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _one_of(allowed: Collection[str]) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if value not in tuple(allowed):
            near = _nearest(str(value), allowed)
            raise ConfigurationError(f"extra `{name}` must be one of {', '.join(allowed)}, not {value!r}{near}")
        return str(value)

    return check


READERS: dict[str, Callable[[str, Any], Any]] = {
    "url": _text,
    "db": _whole(0),
    "ssl": _flag,
    "ssl_ca_certs": _text,
    "ssl_certfile": _text,
    "ssl_keyfile": _text,
    "ssl_password": _text,
    "ssl_cert_reqs": _one_of(("required", "optional", "none")),
    "ssl_check_hostname": _flag,
    "sentinel_username": _text,
    "sentinel_password": _text,
    "discipline": _one_of(DISCIPLINES),
    "lease": _seconds,
    "max_deliveries": _whole(1),
    "traced": _flag,
    # These two extras belong to Airflow's Redis provider; the URL scheme redis+cluster:// is RMQ's equivalent.
    "cluster": _flag,
    "startup_nodes": _text,
}
"""The function that checks and converts the value of each extra, by the extra's name."""


CONNECTION_TYPE = "redis_queue"
OPTIONS = (
    "db", "ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "ssl_password",
    "sentinel_username", "sentinel_password",
)  # fmt: skip
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
    extra = read_extras(_extra_of(connection), strict=ours)
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
