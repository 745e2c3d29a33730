"""The contents of a stream as values: converts entries to messages and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rmq_core.envelope import codec
from rmq_core.envelope.payloads import encode_payload
from rmq_core.errors import PayloadError, QueueError

FIELD = b"data"


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """An entry as delivered to a consumer of a group. `id` is the entry's; acknowledge with the whole message."""

    stream: str
    group: str
    id: str
    payload: dict[str, Any] = field(hash=False)


class BacklogStats(NamedTuple):
    """The backlog of a group, read in one atomic step at a bounded cost.

    length: entries in the stream, acknowledged ones too. undelivered: entries not yet delivered to the group; where the
    server does not count them (before Redis 7), at most 1,000 are counted. pending: delivered and not acknowledged.
    stale: pending entries that are idle for `claim_idle_ms`, counted up to 1,000. oldest_idle_ms: time since the last
    delivery of the oldest pending entry.
    """

    length: int
    undelivered: int
    pending: int
    stale: int
    oldest_idle_ms: int | None


class StreamEntry(NamedTuple):
    """An entry of a stream, undecoded."""

    id: str
    data: bytes | None


def encode(payload: Any) -> bytes:
    """Return the `data` of an entry: canonical UTF-8 JSON of a dict. Raises PayloadError for any other payload."""
    if not isinstance(payload, dict):
        raise PayloadError(f"payload must be a dict, not {type(payload).__name__}: a stream holds JSON objects")
    return encode_payload(payload)[1]


def read_entries(reply: Any) -> list[StreamEntry]:
    """Return the entries of an XREADGROUP reply of one stream, whatever shape the protocol and client give it."""
    streams = list(reply.values()) if isinstance(reply, Mapping) else [part[1] for part in reply or ()]
    found = streams[0] if streams else []
    wrapped = found and isinstance(found[0][0], list | tuple)  # redis-py's form of a RESP3 map
    return entries_of(found[0] if wrapped else found)


def entries_of(reply: Any) -> list[StreamEntry]:
    """Return the entries of an XCLAIM reply; some servers return nil in the place of a deleted entry."""
    return [StreamEntry(_text(entry[0]), _data(entry[1])) for entry in reply or () if entry and entry[0]]


def decode(stream: str, group: str, entry: StreamEntry) -> QueueMessage:
    """Return the message of an entry. Raises QueueError if it is malformed; the text says how to remove the entry."""
    try:
        payload = json.loads(entry.data) if entry.data is not None else None
    except ValueError as error:
        raise _malformed(stream, entry.id, "its field data is not JSON") from error
    if not isinstance(payload, dict):
        raise _malformed(stream, entry.id, "it has no field data" if entry.data is None else "its data is no object")
    return QueueMessage(stream, group, entry.id, payload)


def sorted_out(stream: str, group: str, entries: Iterable[StreamEntry]) -> tuple[list[QueueMessage], list[QueueError]]:
    """Return the messages of well-formed entries, and an error for each malformed entry."""
    messages, errors = [], []
    for entry in entries:
        try:
            messages.append(decode(stream, group, entry))
        except QueueError as error:
            errors.append(error)
    return messages, errors


def envelope(entry_id: str, data: bytes | None, delivered_before: int) -> bytes:
    """Return an entry as an envelope, the form in which leases hold messages."""
    enqueued_ms = int(entry_id.partition("-")[0])
    return codec.stamp(enqueued_ms, delivered_before) + codec.body(entry_id, "j", data or b"")


def _malformed(stream: str, entry_id: str, why: str) -> QueueError:
    error = QueueError(
        f"entry {entry_id} of stream {stream!r} is malformed: {why}. It stays pending: inspect it with XRANGE, "
        f"then remove it from the pending entries with XACK"
    )
    error.queue, error.message_id = stream, entry_id
    return error


def _data(fields: Any) -> bytes | None:
    pairs = fields.items() if isinstance(fields, Mapping) else zip(fields[::2], fields[1::2], strict=False)
    for key, value in pairs:
        if _bytes(key) == FIELD:
            return _bytes(value)
    return None


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else bytes(value).decode()
