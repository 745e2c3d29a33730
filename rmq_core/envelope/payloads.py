"""Encodes payloads, headers and deduplication keys as bytes and decodes them. Pure: no Redis, no clock.

Kinds of payload: `s` str, `b` bytes, `j` JSON; `S`, `B`, `J`: the same, compressed by zlib.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from json import encoder as _encoder
from typing import Any

from rmq_core.envelope.usual import plain_of
from rmq_core.errors import (
    ConfigurationError,
    MalformedMessage,
    PayloadError,
    PayloadTooDeep,
    PayloadTooLarge,
    UnknownPayloadKind,
)
from rmq_core.policy import check_all, whole

KINDS = frozenset("sbj")
_DEEPEST = 500
_MOST_INFLATED = 64 << 20
"""The largest payload, in bytes, that is compressed, and to which a stored one is decompressed: zlib makes up to a
thousand bytes of one, so a small message could exhaust a reader's memory (a decompression bomb)."""

_JSON = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":"),
    default=lambda value: _plain(value, "payload"),
)  # fmt: skip
# `encode` creates a new C encoder for each value, which costs as much as encoding a small dict.
_MAKE = getattr(_encoder, "c_make_encoder", None)
_ENCODE = _MAKE and _MAKE(None, _JSON.default, _encoder.encode_basestring, None, ":", ",", True, False, False)
_MOST_BITS, _MOST_DIGITS = 13_000, 3900  # by default, Python reads and writes integers of up to 4,300 digits
_FLAT = frozenset((str, bool, int, float, type(None)))
_SCALARS = (str, bool, int, float, type(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadLimits:
    """The settings of a queue that limit its payloads, in bytes and in how deep JSON may nest."""

    max_payload_bytes: int = 1 << 20
    max_payload_depth: int = 64

    def __post_init__(self) -> None:
        check_all(whole, self, "max_payload_bytes", "max_payload_depth", minimum=1)
        if self.max_payload_depth > _DEEPEST:
            raise ConfigurationError(f"max_payload_depth must be at most {_DEEPEST}, as deep as Python's JSON reads")


ANY_SIZE = PayloadLimits(max_payload_bytes=sys.maxsize)


def encode_payload(payload: Any, limits: PayloadLimits = ANY_SIZE) -> tuple[str, bytes]:
    """Return the kind and the canonical bytes of a payload (JSON: sorted keys, no spaces, UTF-8).

    This is the codec json. It writes the types of `usual` as JSON has them; a payload that is then a text, such as a
    UUID, is stored as that text. Raises PayloadError, which names the path, for a value that cannot be stored;
    PayloadTooLarge and PayloadTooDeep for the limits.
    """
    if isinstance(payload, str):
        kind, data = "s", encode_text(payload, "payload")
    elif isinstance(payload, bytes):
        kind, data = "b", payload
    elif isinstance(payload, dict | list):
        kind, data = "j", _encode_json(payload, limits.max_payload_depth)
    elif isinstance(payload, bytearray | memoryview):
        kind, data = "b", bytes(payload)
    elif payload is None:
        raise PayloadError("payload is None, as a function without a return gives; publish {} for an empty message")
    elif isinstance(payload, tuple | int | float):
        kind, data = "j", _encode_json(payload, limits.max_payload_depth)
    else:
        return encode_payload(_plain(payload, "payload"), limits)
    if len(data) > limits.max_payload_bytes:
        raise too_large(data, limits)
    return kind, data


def too_large(data: bytes, limits: PayloadLimits) -> PayloadTooLarge:
    return PayloadTooLarge(f"payload has {len(data)} bytes, max_payload_bytes is {limits.max_payload_bytes}")


def _is_flat(payload: Any) -> bool:
    """Return whether a payload is a dict of scalars, as most are; the encoder itself refuses invalid scalars."""
    return (
        type(payload) is dict and _FLAT.issuperset(map(type, payload.values())) and {str}.issuperset(map(type, payload))
    )


def _encode_json(payload: Any, max_depth: int) -> bytes:
    flat = _is_flat(payload)
    if not flat:
        check_json(payload, "payload", max_depth)
    try:
        data = _dumps(payload).encode()
    except ValueError:
        check_json(payload, "payload", max_depth)  # raises an error that names the path
        raise
    if flat and len(data) > _MOST_DIGITS:
        check_json(payload, "payload", max_depth)  # it may contain a number too long for readers
    return data


def compressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """Return a payload compressed; unchanged if that is no shorter."""
    packed = zlib.compress(data) if len(data) <= _MOST_INFLATED else data
    return (kind.upper(), packed) if len(packed) < len(data) else (kind, data)


def inflated(kind: str, data: bytes) -> tuple[str, bytes]:
    """Return a payload as it was before `compressed`. Raises MalformedMessage for damaged bytes, or too many."""
    if kind.lower() not in KINDS:
        raise UnknownPayloadKind(kind)
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, _MOST_INFLATED)
    except zlib.error as error:
        raise MalformedMessage(f"a compressed payload of {len(data)} bytes is damaged: {error}") from None
    if not inflater.eof:
        raise MalformedMessage(f"a compressed payload is cut off, or has more than {_MOST_INFLATED} bytes")
    return kind.lower(), plain


def readable(kind: str, data: bytes) -> tuple[str, bytes]:
    """Return a payload not compressed; unchanged if it cannot be inflated, so that reading it says why."""
    try:
        return inflated(kind, data) if kind < "a" else (kind, data)
    except MalformedMessage:
        return kind, data


def decode_payload(kind: str, data: bytes) -> Any:
    """Return the published payload. Raises MalformedMessage if the bytes are not of that kind.

    Raises UnknownPayloadKind for a kind that a later version of RMQ has added.
    """
    if kind < "a":
        kind, data = inflated(kind, data)
    try:
        if kind == "s":
            return data.decode()
        if kind == "j":
            return json.loads(data)
    except ValueError as error:
        raise MalformedMessage(f"a payload of {len(data)} bytes is not valid for its kind {kind!r}") from error
    if kind == "b":
        return data
    raise UnknownPayloadKind(kind)


def encode_text(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise PayloadError(f"{path} holds a lone surrogate at character {error.start}; it has no UTF-8 form") from None


def canonical(value: Any) -> bytes:
    """Return JSON as it is stored: sorted keys, no spaces, UTF-8. Raises ValueError for a value that JSON lacks."""
    return _dumps(value).encode()


def _dumps(value: Any) -> str:
    return "".join(_ENCODE(value, 0)) if _ENCODE else _JSON.encode(value)


def check_json(value: Any, path: str, depth: int) -> None:
    """Raise PayloadError for a value that JSON would change or lose.

    These are NaN, keys that are not str, types that are not usual, lone surrogates, and nesting deeper than `depth`.
    """
    if isinstance(value, dict | list):
        if depth <= 0:
            raise PayloadTooDeep(f"{path} nests deeper than max_payload_depth allows")
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in items:
            if isinstance(value, dict):
                if not isinstance(key, str):
                    raise PayloadError(f"{path} has the key {key!r}; keys must be str")
                encode_text(key, f"a key of {path}")
            check_json(child, f"{path}[{key!r}]", depth - 1)
    elif isinstance(value, str):
        encode_text(value, path)
    elif not isinstance(value, _SCALARS):
        if getattr(value, "wraps_payload", False):
            name = type(value).__name__
            raise PayloadError(f"{path} is a {name}, which publish_many and stage of leased queues take")
        check_json(list(value) if isinstance(value, tuple) else _plain(value, path), path, depth)
    elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise PayloadError(f"{path} is a number of over 4,000 digits, which JSON readers refuse; send it as a str")
    elif isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124  only NaN differs from itself
        raise PayloadError(f"{path} is {value}, which JSON does not have; send None or a str")


def _plain(value: Any, path: str) -> Any:
    """Return what JSON has for a value of a usual type; what that contains may be of usual types again."""
    found = plain_of(value)
    if found is None:
        raise PayloadError(f"{path} is a {type(value).__name__}, which the codec json does not write; convert it")
    (made,) = found
    if isinstance(value, set | frozenset):  # in one order, or equal sets would be different payloads
        check_json(made, path, _DEEPEST)
        made.sort(key=_dumps)
    return made


def encode_headers(headers: Mapping[str, str] | None) -> bytes:
    """Return headers as JSON, empty bytes if there are none."""
    if not headers:
        return b""
    if not isinstance(headers, Mapping):
        raise PayloadError(f"headers must map str to str, not be a {type(headers).__name__}")
    for key, value in headers.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise PayloadError(f"headers[{key!r}] must be a str under a str key")
        encode_text(key + value, f"headers[{key!r}]")
    return _dumps(dict(headers)).encode()


def one_line(reason: str | None) -> str:
    """Return a reason as the history stores it: one line of at most 200 characters; tabs would separate fields."""
    return "" if reason is None else " ".join(reason.encode(errors="replace").decode().split())[:200]


def digest(kind: str, key: bytes) -> bytes:
    """Return a 128-bit digest of a deduplication key (BLAKE2b, RFC 7693); the kind distinguishes "1" from 1."""
    return hashlib.blake2b(key, digest_size=16, person=kind.encode()).digest()


def key_bytes(key: object) -> bytes:
    """Encode a deduplication key. Raises PayloadError if it is empty or neither str nor bytes."""
    data = encode_text(key, "dedup_key") if isinstance(key, str) else key
    if not isinstance(data, bytes):
        raise PayloadError(f"dedup_key must be or return str or bytes, not {type(key).__name__}")
    if not data:
        raise PayloadError("dedup_key is empty: all messages with it would count as duplicates; leave it out")
    return data


def key_digest(key: object) -> bytes:
    """Return the digest of a deduplication key that a caller named."""
    return digest("key", key_bytes(key))
