"""How many messages make up so many bytes: measured on the oldest ones, estimated beyond them."""

from __future__ import annotations

from collections.abc import Iterator

from rmq_core import LeasedQueue, Message
from rmq_spark.place.source import SourceQueue

PEEKED = 50  # of queues that cannot bound the bytes of an answer
BROWSED = 1000


def how_many(queue: SourceQueue, most_bytes: int) -> int:
    """How many ready messages have at most so many bytes together: at least one.

    Exact when fewer than a thousand do; for more, the rest is taken to be as large as these.
    """
    count = total = 0
    for message in _oldest(queue):
        size = size_of(message)
        if total + size > most_bytes:
            return max(1, count)
        count, total = count + 1, total + size
    return max(1, most_bytes * count // max(1, total))


def _oldest(queue: SourceQueue) -> Iterator[Message]:
    """The oldest ready messages, read page by page, as far as they are asked for: a page of large ones is cut."""
    if not isinstance(queue, LeasedQueue):
        yield from queue.peek(PEEKED)
        return
    seen = 0
    while seen < BROWSED and (page := queue.browse("ready", seen, BROWSED - seen).messages):
        yield from page
        seen += len(page)


def size_of(message: Message) -> int:
    """The bytes of payload and headers."""
    return len(message.raw) + sum(len(name) + len(value) for name, value in message.headers.items())
