"""The settings of the queues that the server reads: those that their consumers use.

Reading a queue reclaims its expired leases, and then `max_deliveries` decides which messages become dead letters. With
other settings than the consumers have, messages would become dead letters too early or too late.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import ConfigurationError
from rmq_core.protocol import DISCIPLINES

RETRY_S = 1.0


class ConsumerSettings:
    """Reads settings of the form `name=value`, for all queues, or `queue:name=value`, for one.

    Raises ConfigurationError for a name that no discipline has and for a value that its discipline refuses.
    """

    def __init__(self, given: Sequence[str] = ()) -> None:
        self._client = RedisSettings.from_url("redis://localhost").client()  # queues need one; it connects to nothing
        self._names = sorted({name for discipline in DISCIPLINES for name in _fields(self._default("any", discipline))})
        self._general: dict[str, Any] = {}
        self._own: dict[str, dict[str, Any]] = {}
        for text in given:
            self._add(text)
        for queue in ("any", *self._own):
            for discipline in DISCIPLINES:
                self._made(queue, discipline)
        self.of = lru_cache(maxsize=10_000)(self._made)
        """`of(queue, discipline)` returns the config of a queue, without settings that its discipline does not have."""

    def _made(self, queue: str, discipline: str) -> Any:
        default = self._default(queue, discipline)
        given = {**self._general, **self._own.get(queue, {}), "retry_budget": RETRY_S}
        return dataclasses.replace(default, **{name: given[name] for name in _fields(default) if name in given})

    def _default(self, queue: str, discipline: str) -> Any:
        return DISCIPLINES[discipline].load()(self._client, queue).config

    def _add(self, text: str) -> None:
        place, equals, value = text.partition("=")
        queue, colon, name = place.rpartition(":")
        if not equals or name not in self._names:
            names = ", ".join(self._names)
            raise ConfigurationError(
                f"--set: write name=value or queue:name=value, not {text!r}; the names are {names}"
            )
        target = self._own.setdefault(queue, {}) if colon else self._general
        target[name] = _value(value)


def _fields(config: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
