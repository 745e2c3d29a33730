"""Checks of arguments: a wrong type is a TypeError, a wrong value a ConfigurationError; both name the parameter.

A bool does not count as a number, because `max_delivery_count=True` is a mistake.
"""

from __future__ import annotations

import inspect
from math import isfinite
from typing import Any, TypeVar

from rmq_core.errors import ConfigurationError

T = TypeVar("T")


def flag(parameter: str, value: object) -> None:
    """Accept only True and False."""
    if not isinstance(value, bool):
        raise TypeError(f"'{parameter}' must be True or False, not {_kind(value)}")


def whole(parameter: str, value: object, *, minimum: int = 1) -> None:
    """Accept only a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"'{parameter}' must be a whole number, not {_kind(value)}")
    if value < minimum:
        raise ConfigurationError(f"'{parameter}' must be at least {minimum}, not {value}")


def whole_or_none(parameter: str, value: object) -> None:
    """Accept only a positive whole number or None."""
    if value is not None:
        whole(parameter, value)


def number(parameter: str, value: object, *, positive: bool = False) -> None:
    """Accept only a finite number that is not negative or, if `positive`, above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"'{parameter}' must be a number, not {_kind(value)}")
    if not isfinite(value) or value < 0 or (positive and value == 0):
        raise ConfigurationError(
            f"'{parameter}' must be a finite number {'above' if positive else 'from'} 0, not {value}"
        )


def text(parameter: str, value: object) -> None:
    """Accept only a str with visible characters and without a null byte."""
    if not isinstance(value, str):
        raise TypeError(f"'{parameter}' must be a str, not {_kind(value)}")
    if not value.strip() or "\0" in value:
        raise ConfigurationError(f"'{parameter}' must hold visible characters and no null byte, not {value!r}")


def callback(parameter: str, value: object, *, asynchronous: bool | None) -> None:
    """Accept only a callable; `asynchronous` states whether it must be async, None accepts both kinds."""
    if not callable(value):
        raise TypeError(f"'{parameter}' must be callable, not {_kind(value)}")
    later = inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None))  # noqa: B004  an object whose call is async
    if asynchronous is True and not later:
        raise TypeError(f"'{parameter}' must be an async callable here; rmq_core.RedisMessageQueue takes plain ones")
    if asynchronous is False and later:
        raise TypeError(f"'{parameter}' is an async callable; use RedisMessageQueue of rmq_core.asyncio")


def instance(parameter: str, value: object, kind: type, example: str) -> None:
    """Accept only an instance of `kind`; `example` is shown in the error."""
    if not isinstance(value, kind):
        raise TypeError(f"'{parameter}' must be a {kind.__name__}, for example {example}, not {_kind(value)}")


def plain(parameter: str, value: T) -> T:
    """Return the result of a callback. Raise TypeError for an awaitable, which the blocking queue cannot await."""
    if not inspect.isawaitable(value):
        return value
    dispose(value)
    raise TypeError(f"'{parameter}' returned an awaitable; use RedisMessageQueue of rmq_core.asyncio")


def dispose(value: Any) -> None:
    """Close or cancel an awaitable that will never be awaited; leave any other value alone."""
    if inspect.isawaitable(value) and (end := getattr(value, "close", None) or getattr(value, "cancel", None)):
        end()


def _kind(value: object) -> str:
    return type(value).__name__
