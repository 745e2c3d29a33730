r"""Stored messages as JSON objects, as an export writes them and an import reads them. Pure: no Redis, no clock.

An object has the fields of the envelope (`docs/how-to/export-import.md` lists them). If these fields would not give
back the very bytes of the envelope, the object has `envelope_base64` instead, so an export loses nothing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rmq_core.envelope import codec
from rmq_core.envelope.payloads import PayloadLimits, canonical, encode_headers, encode_payload, too_large
from rmq_core.errors import MalformedMessage, PayloadError

STATES = ("leased", "delayed", "isolated", "ready", "dead")
"""All states, in the order of an export: a message that moves meanwhile does so towards a later one."""
_LINE = re.compile(r"([^\t\n\x1f]*)\t(\d{1,14})\t([^\t\n\x1f]*)\t([^\n\x1f]*)(?:\x1f(\d+) (\d+) (\d+) (\d+))?\Z")
_MARKS = re.compile(rb"\x1f[\d ]+\n")
_GROUP = re.compile(rb"\x1f\d+ (\d+) \d+ \d+\n\Z")
_SMALL = 3900  # a number of more digits is refused, see payloads.py
_LATEST_MS, _MOST_DELIVERIES, _LONGEST_HISTORY = 10**14 - 1, 10**9, 1 << 16


class StoredMessage(NamedTuple):
    """A message as a queue stores it. due_ms: when a delayed one becomes ready. lease, owner: who holds a leased one.

    `enqueued_ms` of the envelope is 0 if the queue does not store it.
    """

    state: str
    envelope: bytes
    due_ms: int | None = None
    lease: str | None = None
    owner: str | None = None


class StoredPage(NamedTuple):
    """Messages in one state. cursor: where the next page begins, None after the last one.

    moved: whether the queue changed since the page before, so that messages may be missing or doubled.
    """

    messages: Sequence[StoredMessage]
    cursor: tuple[Any, ...] | None
    moved: bool = False


def record_of(message: StoredMessage) -> dict[str, Any]:
    """Return a message as a JSON object; fields without a value are left out."""
    record: dict[str, Any] = {"state": message.state}
    try:
        record |= _fields(message.envelope)
    except (ValueError, MalformedMessage, RecursionError):
        record["envelope_base64"] = base64.b64encode(message.envelope).decode()
    for name in ("due_ms", "lease", "owner"):
        if (value := getattr(message, name)) is not None:
            record[name] = value
    return record


def message_in(record: Mapping[str, Any], limits: PayloadLimits) -> StoredMessage:
    """Return the message of a JSON object. Raises PayloadError, which names the field that is invalid."""
    state = record.get("state")
    if state not in STATES:
        raise PayloadError(f"state must be one of {', '.join(STATES)}, not {state!r}")
    due_ms = _number(record, "due_ms", _LATEST_MS) if state == "delayed" else None
    raw = record.get("envelope_base64")
    envelope = _joined(record, limits) if raw is None else _whole(_decoded("envelope_base64", raw), limits)
    return StoredMessage(state, envelope, due_ms)


def group_of(history: bytes) -> int:
    """Return the isolated group of a message from its history, 0 if it has none."""
    mark = _GROUP.search(history)
    return int(mark[1]) if mark else 0


def is_isolated(envelope: bytes) -> bool:
    """Return whether a message that waits failed together with others, and is tried apart."""
    return group_of(codec.split(envelope).history) > 0


def unmarked(envelope: bytes) -> bytes:
    """Return an envelope without the isolation marks in its history, which mean something to one discipline only."""
    own = codec.split(envelope)
    history = _MARKS.sub(b"\n", own.history)
    return envelope if history == own.history else _envelope(own._replace(history=history))


def _fields(envelope: bytes) -> dict[str, Any]:
    own = codec.split(envelope)
    fields: dict[str, Any] = {"id": own.id, "kind": own.kind, **_payload(own.kind, own.payload)}
    if own.headers:
        fields["headers"] = _headers(own.headers)
    if own.enqueued_ms:
        fields["enqueued_ms"] = own.enqueued_ms
    if own.deliveries:
        fields["deliveries"] = own.deliveries
    if own.history:
        fields["history"] = _failures(own.history)
    if _envelope(own) != envelope:
        raise MalformedMessage("the envelope is not written as this version writes it")
    return fields


def _payload(kind: str, data: bytes) -> dict[str, Any]:
    if kind == "j":
        value = json.loads(data.decode())  # given bytes, it would try other encodings first
        if canonical(value) != data:
            raise MalformedMessage("the JSON is not canonical")
        return {"payload": value}
    if kind == "s":
        return {"payload": data.decode()}
    return {"payload_base64": base64.b64encode(data).decode()}


@lru_cache(maxsize=1024)
def _headers(headers: bytes) -> dict[str, str]:
    found: dict[str, str] = json.loads(headers)
    if encode_headers(found) != headers:
        raise MalformedMessage("the headers are not canonical")
    return found


def _failures(history: bytes) -> list[dict[str, Any]]:
    found = []
    for line in history.decode().removesuffix("\n").split("\n"):
        parts = _LINE.match(line)
        if not parts:
            raise MalformedMessage("a line of the history is not written as this version writes it")
        kind, at_ms, owner, reason, *mark = parts.groups()
        failure = {"kind": kind, "at_ms": int(at_ms), "owner": owner, "reason": reason}
        found.append(failure | ({"isolation": [*map(int, mark)]} if mark[0] is not None else {}))
    if _history(found) != history:
        raise MalformedMessage("the history is not written as this version writes it")
    return found


def _joined(record: Mapping[str, Any], limits: PayloadLimits) -> bytes:
    kind, data = _stored_payload(record, limits)
    message_id = record.get("id")
    if not isinstance(message_id, str) or not 0 < len(message_id) <= 4096 or not message_id.isprintable():
        raise PayloadError(f"id must be a text of 1 to 4096 visible characters, not {message_id!r:.100}")
    if " " in message_id:
        raise PayloadError(f"id {message_id!r:.100} must not hold spaces")
    return _envelope(
        codec.Envelope(
            _number(record, "deliveries", _MOST_DELIVERIES, 0), _number(record, "enqueued_ms", _LATEST_MS, 0),
            _history(record.get("history") or []), message_id, kind, encode_headers(record.get("headers")), data,
        )
    )  # fmt: skip


def _stored_payload(record: Mapping[str, Any], limits: PayloadLimits) -> tuple[str, bytes]:
    kind, raw = record.get("kind"), record.get("payload_base64")
    if not isinstance(kind, str) or not re.fullmatch("[a-zA-Z]", kind):
        raise PayloadError(f"kind must be a letter (j for JSON, s for a text, b for bytes), not {kind!r:.100}")
    if raw is not None:
        return kind, _fitting(_decoded("payload_base64", raw), limits)
    value = record.get("payload")
    if "payload" not in record or kind not in "js" or (kind == "s") != isinstance(value, str):
        raise PayloadError(f"payload must be what its kind {kind!r} says, or stand in payload_base64")
    return kind, _encoded(value, limits)


def _encoded(value: Any, limits: PayloadLimits) -> bytes:
    """Return a payload that a JSON line held. Most are small and flat, and need no second check of each value."""
    try:
        data = value.encode() if isinstance(value, str) else canonical(value)
    except ValueError:
        return encode_payload(value)[1]  # raises an error that names the path
    small = len(data) <= _SMALL and data.count(b"{") + data.count(b"[") <= limits.max_payload_depth
    if not small and isinstance(value, dict | list):
        encode_payload(value, limits)
    return _fitting(data, limits)


def _history(failures: Any) -> bytes:
    if not isinstance(failures, list):
        raise PayloadError("history must be a list of objects")
    history = "".join(map(_line, failures)).encode()
    if len(history) > _LONGEST_HISTORY:
        raise PayloadError(f"history has {len(history)} bytes; at most {_LONGEST_HISTORY} are taken")
    return history


def _line(failure: Any) -> str:
    try:
        kind, owner = failure["kind"], failure["owner"]
        line = f"{kind}\t{failure['at_ms']}\t{owner}\t{failure['reason']}" if "\t" not in kind + owner else ""
        if mark := failure.get("isolation"):
            line += "\x1f{:d} {:d} {:d} {:d}".format(*mark)
    except (TypeError, KeyError, ValueError, IndexError, AttributeError):
        line = ""
    if not _LINE.match(line):
        raise PayloadError("history must hold objects with kind, at_ms, owner and reason, texts of one line")
    return f"{line}\n"


def _envelope(own: codec.Envelope) -> bytes:
    body = codec.body(own.id, own.kind, own.payload, own.headers)
    return b"%d %d %d %b%b" % (own.deliveries, own.enqueued_ms, len(own.history), own.history, body)


def _whole(envelope: bytes, limits: PayloadLimits) -> bytes:
    try:
        _fitting(codec.split(envelope).payload, limits)
    except MalformedMessage as error:
        raise PayloadError(f"envelope_base64: {error}") from error
    return envelope


def _fitting(data: bytes, limits: PayloadLimits) -> bytes:
    if len(data) > limits.max_payload_bytes:
        raise too_large(data, limits)
    return data


def _decoded(name: str, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise PayloadError(f"{name} is not base64: {error}") from None


def _number(record: Mapping[str, Any], name: str, most: int, default: int | None = None) -> int:
    value = record.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise PayloadError(f"{name} must be a whole number from 0 to {most}, not {value!r:.100}")
    return value
