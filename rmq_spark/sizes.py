"""How many messages make up so many bytes: measured on the oldest ones, estimated beyond them."""

from __future__ import annotations

from itertools import accumulate, takewhile

from rmq_core import LeasedQueue, Message
from rmq_spark.source import SourceQueue

PEEKED = 50  # of queues that cannot bound the bytes of an answer
BROWSED = 1000


def how_many(queue: SourceQueue, most_bytes: int) -> int:
    """How many ready messages have at most so many bytes together: at least one.

    Exact when fewer than a thousand do; for more, the rest is taken to be as large as these.
    """
    page = queue.browse("ready", 0, BROWSED).messages if isinstance(queue, LeasedQueue) else queue.peek(PEEKED)
    sizes = [size_of(message) for message in page]
    fitting = len(list(takewhile(lambda total: total <= most_bytes, accumulate(sizes))))
    if fitting < len(sizes) or not sizes:
        return max(1, fitting)
    return max(1, most_bytes * len(sizes) // max(1, sum(sizes)))


def size_of(message: Message) -> int:
    """The bytes of payload and headers."""
    return len(message.raw) + sum(len(name) + len(value) for name, value in message.headers.items())
