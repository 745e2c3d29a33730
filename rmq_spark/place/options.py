"""Options of `format("rmq")`: declared with a type and a default, and all parsed before the first call to Redis.

Spark passes options as text; their names may be in upper or lower case. An option that is unknown, missing or of the
wrong type raises a ConfigurationError that names the option and the remedy and never repeats the value of a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from rmq_core import ConfigurationError

T = TypeVar("T")
D = TypeVar("D")
N = TypeVar("N", int, float)

SPARK_ADDS = frozenset({"checkpointlocation"})
"""Options that Spark passes on to a streaming source or sink although they are meant for Spark itself."""
ASYNC = "asyncProgressTrackingEnabled"
ASYNC_REFUSED = (
    f"option {ASYNC}: leave it out. With it, Spark continues before its log is durable: batches are acked that are"
    " not in the log, and the query cannot be restarted"
)
WRAPPER_REFUSED = (
    "Spark's setting spark.sql.streaming.triggerAvailableNowWrapper.enabled: leave it false. With it, this version of"
    " Spark asks for messages before it names the checkpoint that they are for. To process all that is ready, use"
    " rmq_spark.drain(query)"
)
_FLAGS = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_DURATIONS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_SIZES = {"": 1.0, "b": 1.0} | {
    unit + ending: 1024.0**power for power, unit in enumerate("kmg", 1) for ending in ("", "b", "ib")
}


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option. It must be given unless `or_else` made it optional.

    wanted: the expected text, for the error. read: parses the text; raises ValueError or KeyError when it is wrong.
    """

    name: str
    wanted: str
    read: Callable[[str], T]
    default: Any = None
    required: bool = True
    secret: bool = False

    def or_else(self, default: D) -> Option[T | D]:
        """Return the same option, made optional with a default."""
        return Option(self.name, self.wanted, self.read, default, required=False, secret=self.secret)

    def value(self, text: str | None) -> T:
        """Return the parsed text, or the default. An empty text counts as not given."""
        if not text and self.required:
            raise ConfigurationError(f'format("rmq") needs the option {self.name!r}: {self.wanted}')
        try:
            return self.read(text) if text else self.default
        except (ValueError, KeyError):
            given = "" if self.secret else f", not {text!r}"
            raise ConfigurationError(f"option {self.name} must be {self.wanted}{given}") from None


class OptionValues:
    """The values of declared options, by their declaration: `options[QUEUE]`."""

    def __init__(self, given: Mapping[str, str], declared: Sequence[Option[Any]]) -> None:
        """Read every declared option. Raises ConfigurationError for the first that is unknown, missing or wrong."""
        texts = {name.lower(): text for name, text in given.items()}
        check_names(given, declared)
        self._given = {option.name for option in declared if texts.get(option.name.lower())}
        self._values = {option.name: option.value(texts.get(option.name.lower())) for option in declared}

    def __getitem__(self, option: Option[T]) -> T:
        value: T = self._values[option.name]
        return value

    def refuse(self, option: Option[Any], why: str) -> None:
        """Raise ConfigurationError when an option was given that would have no effect here."""
        if option.name in self._given:
            raise ConfigurationError(f"option {option.name}: {why}")


def check_names(given: Mapping[str, str], declared: Sequence[Option[Any]]) -> None:
    """Raise ConfigurationError for an undeclared option: a misspelt one would otherwise silently keep its default."""
    known = {option.name.lower(): option.name for option in declared}
    for name in given:
        if name.lower() == ASYNC.lower():
            raise ConfigurationError(ASYNC_REFUSED)
        if name.lower() not in known.keys() | SPARK_ADDS:
            near = get_close_matches(name.lower(), known, n=1)
            meant = f"did you mean {known[near[0]]!r}?" if near else f"it has {', '.join(sorted(known.values()))}"
            raise ConfigurationError(f'format("rmq") has no option {name!r} here; {meant}')


def text(name: str, wanted: str = "a text", *, secret: bool = False) -> Option[str]:
    """Return an option whose value is any text that is not empty."""
    return Option(name, wanted, str, secret=secret)


def whole(name: str, minimum: int = 1) -> Option[int]:
    """Return an option whose value is a whole number."""
    return Option(name, f"a whole number >= {minimum}", lambda text: _at_least(minimum, int(text)))


def flag(name: str) -> Option[bool]:
    """Return an option whose value is true or false."""
    return Option(name, "true or false", lambda text: _FLAGS[text.lower()])


def one_of(name: str, *allowed: str) -> Option[str]:
    """Return an option whose value is one of a few words, in upper or lower case."""
    words = {word.lower(): word for word in allowed}
    return Option(name, f"one of {', '.join(allowed)}", lambda text: words[text.lower()])


def duration(name: str, minimum_s: float = 0.001) -> Option[float]:
    """Return an option whose value is a time in seconds: "10 minutes", "500 ms", "1.5h"; a bare number is seconds."""
    wanted = f"a time of at least {minimum_s:g} s such as '10 minutes', '500 ms' or '2.5 s'"
    return Option(name, wanted, lambda text: _at_least(minimum_s, _amount(text, _DURATIONS)))


def size(name: str) -> Option[int]:
    """Return an option whose value is a size in bytes: "8m", "64 MiB"; a bare number is bytes, and 1k is 1,024."""
    wanted = "a size of at least 1 byte such as '8m', '512 KiB' or '1000000'"
    return Option(name, wanted, lambda text: _at_least(1, int(_amount(text, _SIZES))))


def names(name: str, check: Callable[[list[str]], object]) -> Option[list[str]]:
    """Return an option whose value is a JSON list of names; `check` raises for names that cannot be."""

    def read(text: str) -> list[str]:
        found = json.loads(text)
        if not isinstance(found, list):
            raise ValueError(text)
        check(found)
        return found

    return Option(name, """a JSON list of names, such as '["tenant-7"]'""", read)


def _amount(text: str, units: Mapping[str, float]) -> float:
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(text)
    return float(found[1]) * units[found[2]]


def _at_least(minimum: N, number: N) -> N:
    if number < minimum:
        raise ValueError(number)
    return number
