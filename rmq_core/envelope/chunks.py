"""Splits published items into chunks that are small enough for one script call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rmq_core.errors import PayloadError

S = TypeVar("S")
T = TypeVar("T")
_MOST, _MOST_BYTES = 1000, 4 << 20


def chunks(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most 1,000 items and 4 MiB; `size` returns the bytes of an item."""
    chunk: list[T] = []
    total = 0
    for item in items:
        if chunk and (len(chunk) >= _MOST or total + size(item) > _MOST_BYTES):
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += size(item)
    if chunk:
        yield chunk


def each(make: Callable[[S], T], items: Iterable[S], first: int = 0) -> Iterator[T]:
    """Yield `make(item)` for each item. A PayloadError names the index of its item, counted from `first`."""
    for index, item in enumerate(items, first):
        try:
            made = make(item)
        except PayloadError as error:
            error.name_index(index)
            raise
        yield made
