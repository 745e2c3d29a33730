"""The form of a published message: text as it is, a dict as JSON with sorted keys. No value is changed silently."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rmq_core.compat import checks
from rmq_core.envelope.payloads import encode_text
from rmq_core.errors import PayloadTooDeep, PayloadTooLarge

_JSON = (str, bool, int, float, type(None))


@dataclass(frozen=True, slots=True)
class PayloadRules:
    """The payloads that a queue accepts. `strict` also refuses types that JSON only converts, such as tuples."""

    max_bytes: int | None = None
    max_depth: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        checks.whole_or_none("max_payload_bytes", self.max_bytes)
        checks.whole_or_none("max_payload_depth", self.max_depth)
        checks.flag("strict_payload_types", self.strict)

    def serialize(self, message: object) -> str:
        """Return the text that is stored and delivered.

        Raises TypeError for a message that is neither str nor dict, for keys that are not str and for values that JSON
        cannot hold; ValueError (PayloadError) for NaN, infinities and lone surrogates; PayloadTooLarge, PayloadTooDeep.
        """
        if isinstance(message, str):
            text = message
        elif isinstance(message, dict):
            _check_keys(message, "message", strict=self.strict)
            text = json.dumps(message, sort_keys=True, allow_nan=False)
            if self.max_depth is not None and _depth(message) > self.max_depth:
                raise PayloadTooDeep(f"the message nests deeper than max_payload_depth={self.max_depth}; flatten it")
        else:
            raise TypeError(f"'message' must be a str or a dict, not {type(message).__name__}")
        size = len(encode_text(text, "message"))
        if self.max_bytes is not None and size > self.max_bytes:
            raise PayloadTooLarge(f"the message has {size} bytes, max_payload_bytes is {self.max_bytes}")
        return text


def _check_keys(value: Any, path: str, *, strict: bool, inside: tuple[int, ...] = ()) -> None:
    """Raise TypeError for keys that are not str. JSON would convert them: {1: "x"} and {"1": "x"} would be the same.

    Raises ValueError for a value that contains itself and, if `strict`, TypeError for types that JSON does not have.
    """
    if id(value) in inside:
        raise ValueError(f"{path} contains itself")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}; the keys of a message must be str")
        items: Any = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        items = ()
    if strict and not isinstance(value, (dict, list, *_JSON)):
        raise TypeError(f"{path} is a {type(value).__name__}, which JSON does not have; convert it before publishing")
    for key, child in items:
        if strict or isinstance(child, dict | list | tuple):
            _check_keys(child, f"{path}[{key!r}]", strict=strict, inside=(*inside, id(value)))


def _depth(value: Any) -> int:
    if isinstance(value, dict | list | tuple):
        return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0
