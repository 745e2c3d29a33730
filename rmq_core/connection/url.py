"""Reads a Redis URL and its options into plain values. Pure: it opens no connection and resolves no name.

Errors name the parameter and never repeat the part of the URL before the host: if a special character in a password
is not encoded, any piece of that text may be a piece of the password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote

from rmq_core.errors import ConfigurationError

Option: TypeAlias = str | int | float | bool
Hosts: TypeAlias = tuple[tuple[str, int], ...]

FORMS = {
    "redis": "redis://host:6379/0",
    "rediss": "rediss://host:6379/0",
    "unix": "unix:///path/to/redis.sock",
    "sentinel": "sentinel://host1:26379,host2:26379/service_name/0",
    "redis+cluster": "redis+cluster://host1:6379,host2:6379",
    "embedded": "embedded:///path/to/a/directory",
}
_ENCODE = "percent-encode special characters in names, passwords and paths (urllib.parse.quote(text, safe=''))"
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


class _Parts(NamedTuple):
    scheme: str
    authority: str
    path: str
    query: str


class _Authority(NamedTuple):
    username: str | None
    password: str | None
    hosts: Hosts


def parse(url: str, options: Mapping[str, Option | None]) -> dict[str, Any]:
    """Return the fields of `RedisSettings` that a URL and its options set; options override the URL's query.

    Raises ConfigurationError.
    """
    parts = _split(url)
    values = dict(_typed(_query(parts.query)))
    values |= _READERS[parts.scheme](parts, values)
    return values | dict(_typed({name: value for name, value in options.items() if value is not None}))


def _split(url: str) -> _Parts:
    if not isinstance(url, str):
        raise ConfigurationError(f"url: a str such as {FORMS['redis']!r} is needed, not {type(url).__name__}")
    scheme, _, rest = url.strip().partition("://")
    if scheme.lower() not in FORMS:
        raise ConfigurationError(f"url: the scheme is unknown; write one of {', '.join(FORMS.values())}")
    if "#" in rest:
        raise ConfigurationError(f"url: it contains '#'; {_ENCODE}")
    place, _, query = rest.partition("?")
    authority, slash, path = place.partition("/")
    if "@" in query or ("@" in path and scheme.lower() not in ("unix", "embedded")):
        raise ConfigurationError(f"url: '@' comes after the first '/' or '?'; {_ENCODE}")
    return _Parts(scheme.lower(), authority, slash + path, query)


def _query(query: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in values:
            raise ConfigurationError(f"url: the option {name} is given twice")
        values[name] = value
    return values


def _typed(values: Mapping[str, Option]) -> Iterator[tuple[str, Option]]:
    for name, value in values.items():
        if name not in _OPTIONS:
            raise ConfigurationError(f"url: unknown option {name!r}; the options are {', '.join(sorted(_OPTIONS))}")
        yield name, _OPTIONS[name](name, value)


def _node(parts: _Parts, values: Mapping[str, Option]) -> dict[str, Any]:
    username, password, hosts = _authority(parts.authority or "localhost", 6379)
    if len(hosts) > 1:
        raise ConfigurationError("url: several hosts need sentinel:// or redis+cluster://")
    found = {"scheme": parts.scheme, "hosts": hosts, "db": _database(parts.path.strip("/"), values)}
    return found | _credentials(username, password)


def _socket(parts: _Parts, values: Mapping[str, Option]) -> dict[str, Any]:
    userinfo, _, host = parts.authority.rpartition("@")
    if host or not parts.path.strip("/"):
        raise ConfigurationError(f"url: a Unix socket is written {FORMS['unix']}, with three slashes; {_ENCODE}")
    found = {"scheme": parts.scheme, "path": unquote(parts.path), "db": _database("", values)}
    return found | _credentials(*_userinfo(userinfo))


def _sentinels(parts: _Parts, values: Mapping[str, Option]) -> dict[str, Any]:
    username, password, hosts = _authority(parts.authority, 26379)
    service, _, database = parts.path.removeprefix("/").rstrip("/").partition("/")
    if not service:
        raise ConfigurationError(f"url: the service name is missing; write {FORMS['sentinel']}")
    found = {"scheme": parts.scheme, "hosts": hosts, "service": unquote(service), "db": _database(database, values)}
    return found | _credentials(username, password)


def _cluster(parts: _Parts, values: Mapping[str, Option]) -> dict[str, Any]:
    username, password, hosts = _authority(parts.authority, 6379)
    found = {"scheme": parts.scheme, "hosts": hosts, "db": _database(parts.path.strip("/"), values)}
    return found | _credentials(username, password)


def _directory(parts: _Parts, values: Mapping[str, Option]) -> dict[str, Any]:
    path = unquote(parts.authority + parts.path)
    if not path.strip("/"):
        raise ConfigurationError(f"url: the directory is missing; write {FORMS['embedded']} or embedded://./directory")
    return {"scheme": parts.scheme, "path": _absolute(path), "db": _database("", values)}


def _absolute(path: str) -> str:
    """Return the absolute path, because processes that share the server may run in other directories."""
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError as error:
        raise ConfigurationError(f"url: {error}; write the directory without '~'") from error


def _authority(text: str, default_port: int) -> _Authority:
    userinfo, _, hosts = text.rpartition("@")
    return _Authority(*_userinfo(userinfo), tuple(_host(part, default_port) for part in hosts.split(",")))


def _userinfo(text: str) -> tuple[str | None, str | None]:
    username, _, password = text.partition(":")
    return unquote(username) or None, unquote(password) or None


def _credentials(username: str | None, password: str | None) -> dict[str, str]:
    given = {"username": username, "password": password}
    return {name: value for name, value in given.items() if value is not None}


def _host(text: str, default_port: int) -> tuple[str, int]:
    bracketed, closing, port = text.strip().rpartition("]")
    host = bracketed.removeprefix("[")
    if not closing:
        host, _, port = port.partition(":")
    if not host or "[" in host:
        raise ConfigurationError(f"url: a host is missing; write host:port, or [address]:port for IPv6; {_ENCODE}")
    return unquote(host), _port(port.removeprefix(":"), default_port)


def _port(text: str, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ConfigurationError(f"url: the port must be a number from 1 to 65535; {_ENCODE}")
    return int(text)


def _database(text: str, values: Mapping[str, Option]) -> Option:
    if text and "db" in values:
        raise ConfigurationError("db: it is both in the path and in the query; write it once")
    return _natural("db", text) if text else values.get("db", 0)


def _natural(name: str, value: Option) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise ConfigurationError(f"{name}: a whole number from 0 on is needed")
    return int(text)


def _positive(name: str, value: Option) -> int:
    number = _natural(name, value)
    if number < 1:
        raise ConfigurationError(f"{name}: it must be at least 1")
    return number


def _seconds(name: str, value: Option) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if isinstance(value, bool) or not 0 < seconds < 86_400:
        raise ConfigurationError(f"{name}: seconds are needed, more than 0 and less than a day")
    return seconds


def _flag(name: str, value: Option) -> bool:
    text = str(value).lower()
    if text not in _TRUE | _FALSE:
        raise ConfigurationError(f"{name}: write true or false")
    return text in _TRUE


def _text(name: str, value: Option) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name}: it must be a str that is not empty")
    return value


def _one_of(*allowed: str) -> Callable[[str, Option], str]:
    def check(name: str, value: Option) -> str:
        if str(value) not in allowed:
            raise ConfigurationError(f"{name}: write one of {', '.join(allowed)}")
        return str(value)

    return check


_READERS: dict[str, Callable[[_Parts, Mapping[str, Option]], dict[str, Any]]] = {
    "redis": _node, "rediss": _node, "unix": _socket, "sentinel": _sentinels, "redis+cluster": _cluster,
    "embedded": _directory,
}  # fmt: skip
_OPTIONS: dict[str, Callable[[str, Option], Option]] = {
    "username": _text, "password": _text, "sentinel_username": _text, "sentinel_password": _text, "db": _natural,
    "tls": _flag, "ssl_ca_certs": _text, "ssl_certfile": _text, "ssl_keyfile": _text, "ssl_password": _text,
    "ssl_cert_reqs": _one_of("required", "optional", "none"), "ssl_check_hostname": _flag,
    "socket_timeout": _seconds, "socket_connect_timeout": _seconds, "max_connections": _positive, "client_name": _text,
    "protocol": lambda name, value: int(_one_of("2", "3")(name, value)),
}  # fmt: skip
