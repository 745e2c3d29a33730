"""The codec of a queue whose payloads have one type. Pure; pydantic and msgspec are imported when it is made."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from rmq_core.envelope.payloads import decode_payload
from rmq_core.errors import ConfigurationError, InvalidPayload, PayloadError

T = TypeVar("T")


class _Library(NamedTuple):
    """What pydantic, or msgspec, does for a type. errors: what both functions raise for a value that does not fit.

    dumped: checks a value, and returns it and what JSON has for it. loaded: makes the value of JSON. why: the text of
    an error.
    """

    errors: tuple[type[Exception], ...]
    dumped: Callable[[Any], tuple[Any, Any]]
    loaded: Callable[[bytes], Any]
    why: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Typed(Generic[T]):
    """Payloads of one type: `LeasedConfig(codec=Typed(Order))`.

    type: a model of pydantic, a dataclass, a TypedDict or another type that pydantic reads; or a Struct of msgspec.
    `publish` takes a value of the type, or a dict of its fields, and checks it: PayloadError names the part that does
    not fit. Stored is its JSON, as any program reads it. A message of a lease has the value as its `payload`, made and
    checked at each access. Raises ConfigurationError without pydantic, or for what is no type.
    """

    type: type[T]

    def __post_init__(self) -> None:
        _library(self.type)

    def __repr__(self) -> str:
        return f"Typed({getattr(self.type, '__name__', self.type)})"

    def write(self, payload: Any) -> tuple[T, Any]:
        """Return a payload as a value of the type, and as JSON has it. Raises PayloadError."""
        library = _library(self.type)
        try:
            return library.dumped(payload)
        except library.errors as error:
            raise PayloadError(f"{library.why(error)}; the codec is {self}") from None

    def read(self, message_id: str, kind: str, raw: bytes) -> T:
        """Return the payload of a message. Raises InvalidPayload, and what `decode_payload` raises."""
        library = _library(self.type)
        value = decode_payload(kind, raw)
        if isinstance(value, bytes):
            raise InvalidPayload(message_id, f"payload has bytes, not JSON; the codec is {self}")
        try:
            made: T = library.loaded(raw if kind == "j" else json.dumps(value).encode())
        except library.errors as error:
            raise InvalidPayload(message_id, f"{library.why(error)}; the codec is {self}") from None
        return made


def _library(kind: Any) -> _Library:
    return _known(kind)  # mypy does not take a type[T] for hashable


@lru_cache(maxsize=1024)
def _known(kind: Any) -> _Library:
    struct = getattr(sys.modules.get("msgspec"), "Struct", None)
    if struct is not None and isinstance(kind, type) and issubclass(kind, struct):
        return _of_msgspec(kind)
    return _of_pydantic(kind)


def _of_pydantic(kind: Any) -> _Library:
    try:
        from pydantic import PydanticUserError, TypeAdapter, ValidationError
        from pydantic_core import PydanticSerializationError
    except ImportError as error:
        raise ConfigurationError("codec: Typed needs pydantic, or a Struct of msgspec: pip install pydantic") from error
    try:
        adapter: Any = TypeAdapter(kind)
    except PydanticUserError as error:
        raise ConfigurationError(f"codec: pydantic reads no {kind!r}: {error}".partition("\n")[0]) from None

    def dumped(payload: Any) -> tuple[Any, Any]:
        value = adapter.validate_python(payload)
        written = adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        if value is payload:  # a model is taken as it is, whatever was assigned to its fields since it was made
            adapter.validate_json(json.dumps(written))
        return value, written

    def why(error: Exception) -> str:
        if not isinstance(error, ValidationError):
            return f"payload: {error}"
        first, *others = error.errors(include_url=False, include_context=False, include_input=False)
        place = "".join(f"[{part!r}]" for part in first["loc"])
        return f"payload{place}: {first['msg']}" + (f", and {len(others)} more" if others else "")

    return _Library((ValidationError, PydanticSerializationError), dumped, adapter.validate_json, why)


def _of_msgspec(kind: Any) -> _Library:
    import msgspec

    decoder = msgspec.json.Decoder(kind)

    def dumped(payload: Any) -> tuple[Any, Any]:
        value = msgspec.convert(msgspec.to_builtins(payload), kind)
        return value, msgspec.to_builtins(value)

    def why(error: Exception) -> str:
        return f"payload: {error}".replace("`$", "`payload")

    return _Library((msgspec.ValidationError, TypeError), dumped, decoder.decode, why)
