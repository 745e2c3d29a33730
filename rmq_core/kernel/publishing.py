"""Publishing code shared by the disciplines that have no publishing pipeline of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rmq_core.errors import RedisMessageQueueError
from rmq_core.exchange import Exchange
from rmq_core.protocol import lacking
from rmq_core.reports import PublishReport

T = TypeVar("T")


def refuse(discipline: str, **asked: object) -> None:
    """Raise Unsupported for the first of these capabilities that is requested; None and {} request nothing."""
    for capability, value in asked.items():
        if value is not None and value != {}:
            raise lacking(discipline, capability)


def refuse_groups(discipline: str, *asked: object) -> None:
    """Raise Unsupported if any of what needs groups is requested: a group, a priority, a publication, an expiry."""
    if any(each is not None for each in asked):
        raise lacking(discipline, "groups", "groups, priorities, publications or expiry")


def publish_chunks(chunks: Iterable[T], push: Callable[[T], Exchange[Sequence[str | None]]]) -> Exchange[PublishReport]:
    """Push one chunk after the other; `push` returns the id of each message, None for a duplicate.

    Stops at the first chunk that is refused and raises; `report` of the error covers the chunks accepted before it.
    """
    ids: list[str | None] = []
    try:
        for chunk in chunks:
            ids += yield from push(chunk)
    except RedisMessageQueueError as error:
        error.report = _report(ids)
        raise
    return _report(ids)


def _report(ids: Sequence[str | None]) -> PublishReport:
    duplicates = ids.count(None)
    return PublishReport(len(ids) - duplicates, duplicates, 0, tuple(ids))
