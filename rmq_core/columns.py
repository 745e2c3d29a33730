"""Messages column by column, for readers that hand them on by the thousand: a list a field, no object a message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from rmq_core.errors import MalformedMessage


class Columns(NamedTuple):
    """The fields of messages, one entry a message in each list.

    ids and payloads are as stored, UTF-8 of an id; headers is JSON, nothing for none. See `Message` for the others.
    """

    ids: Sequence[bytes]
    payloads: Sequence[bytes]
    headers: Sequence[bytes]
    deliveries: Sequence[int]
    enqueued_ms: Sequence[int]
    indexes: Sequence[int]


def columns_of(envelopes: Sequence[bytes], indexes: Sequence[int], delivered: int) -> Columns:
    """Take envelopes apart; `delivered` counts the deliveries of their present lease. Raises MalformedMessage.

    Does what `codec.split` does one by one, in a third of the time.
    """
    ids: list[bytes] = []
    payloads: list[bytes] = []
    headers: list[bytes] = []
    deliveries: list[int] = []
    enqueued: list[int] = []
    try:
        for envelope in envelopes:
            count, at_ms, length, rest = envelope.split(b" ", 3)
            if length != b"0":
                rest = rest[int(length) :]
            name, kind, rest = rest.split(b" ", 2)
            size = int(kind[1:])
            ids.append(name)
            payloads.append(rest[size:] if size else rest)
            headers.append(rest[:size])
            deliveries.append(int(count) + delivered)
            enqueued.append(int(at_ms))
    except ValueError as error:
        raise MalformedMessage(f"a stored entry of {len(envelope)} bytes is not an RMQ envelope") from error
    return Columns(ids, payloads, headers, deliveries, enqueued, indexes)


def joined(parts: Sequence[Columns]) -> Columns:
    """Several columns, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Columns(*(list(chain.from_iterable(column)) for column in zip(*parts, strict=True))) if parts else _NONE


def header_items(headers: bytes) -> Iterable[tuple[str, str]]:
    """The names and values that an entry of `headers` holds. Raises MalformedMessage."""
    if not headers:
        return ()
    try:
        items: Iterable[tuple[str, str]] = json.loads(headers).items()
    except (ValueError, AttributeError) as error:
        raise MalformedMessage(f"the headers of a stored entry, {len(headers)} bytes, are damaged") from error
    return items


_NONE = Columns([], [], [], [], [], [])
