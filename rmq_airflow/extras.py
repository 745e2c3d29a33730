"""The extras of a connection: their names and the values that each accepts. Pure.

Law: no extra is ignored silently. An unknown name, or a value that cannot work, raises a ConfigurationError that names
the extra, the accepted values and the closest match. Values may be text, as in a connection written as a URI.
Connections of other types, such as those of Airflow's Redis provider, may carry extras that have no meaning here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from rmq_core import ConfigurationError
from rmq_core.protocol import DISCIPLINES

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_CLOSE = 0.8  # from this similarity on, an unknown extra counts as a misspelt RMQ extra: "leese", not "timeout"


def read(extra: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
    """Return the given extras, converted to their types; null and "" count as not given.

    With `strict`, raise ConfigurationError for every unknown name; otherwise only for a misspelt name of an RMQ extra.
    """
    given = {name: value for name, value in extra.items() if value not in (None, "")}
    for name in given.keys() - READERS.keys():
        if strict or _nearest(name, READERS, _CLOSE):
            raise ConfigurationError(_unknown(name))
    return {name: READERS[name](name, value) for name, value in given.items() if name in READERS}


def _unknown(name: str) -> str:
    return (
        f"unknown extra `{name}`{_nearest(name, READERS) or '.'} The extras are {', '.join(sorted(READERS))}. User and "
        "password have fields of their own; options such as socket_timeout go into the query of `url`"
    )


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
