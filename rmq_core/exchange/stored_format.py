"""The stored format of a queue, and the error for a client that does not understand it.

A queue without the key `<prefix>format` is stored in format 1. A migration to a later format renames the main keys of
the queue, leaves strings in their places, and writes `<prefix>format`. So the scripts of an older client fail with
WRONGTYPE before they write. The check costs nothing: a client reads `<prefix>format` only after such an error.
docs/reference/stored-format.md describes format 1.
"""

from __future__ import annotations

from rmq_core.errors import FormatMismatch, RedisMessageQueueError, WrongKeyType
from rmq_core.exchange import Command, Exchange

FORMAT = 1
"""The format that this version reads and writes."""


def format_key(prefix: bytes) -> bytes:
    """Return the key that holds `<format> <first version of RMQ that understands it>`, for the prefix of a queue."""
    return prefix + b"format"


def explained(prefix: bytes, error: WrongKeyType) -> Exchange[RedisMessageQueueError]:
    """Return FormatMismatch if the queue is stored in another format, else `error`."""
    try:
        stored = yield Command(("GET", format_key(prefix)))
    except RedisMessageQueueError:
        return error
    kept, _, needs = _text(stored).partition(" ")
    if not kept.isdecimal() or int(kept) == FORMAT:
        return error
    mismatch = FormatMismatch(int(kept), FORMAT, needs)
    mismatch.__cause__ = error
    return mismatch


def _text(stored: bytes | str | None) -> str:
    return stored.decode(errors="replace") if isinstance(stored, bytes) else stored or ""
