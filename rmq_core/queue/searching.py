"""Searches messages, one page a call, and groups dead letters by the reasons of their failures; changes nothing."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from rmq_core.envelope.codec import message_of
from rmq_core.envelope.matching import Match, Test, chosen_by, group_of_reason, last_failure, moment
from rmq_core.envelope.stored import StoredPage
from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.queue.choosing import PAGE, Changes
from rmq_core.queue.moving import Cursor
from rmq_core.reports import OnProgress, QueueStats, ReasonGroup, SearchPage

E = TypeVar("E")
PageOf = Callable[[E, str, Cursor], Exchange[StoredPage]]


class Position(NamedTuple):
    """Where a search goes on: messages scanned so far, how many there were at its start, cursor of the next page."""

    scanned: int = 0
    total: int | None = None
    cursor: Cursor = ()


def position_of(after: str | None, target: str) -> Position:
    """Return the position in a text that `search` returned. Raises ConfigurationError for another text."""
    if after is None:
        return Position()
    try:
        known, scanned, total, cursor = json.loads(base64.urlsafe_b64decode(after.encode()), object_hook=_bytes_in)
        fits = known == target and isinstance(scanned, int) and isinstance(total, int) and isinstance(cursor, list)
    except (ValueError, TypeError, AttributeError, RecursionError):
        fits = False
    if not fits:
        raise ConfigurationError(f"after must be what the last search of {target} messages returned")
    return Position(scanned, total, tuple(cursor))


def found_in(page: StoredPage, target: str, test: Test, at: Position, total: int) -> SearchPage:
    """Return the messages of a page that pass the test."""
    found = [one for one in page.messages if test(one.envelope)]
    scanned = at.scanned + len(page.messages)
    return SearchPage(
        [message_of(one.envelope, lease_id=one.lease or "") for one in found],
        [datetime.fromtimestamp(one.due_ms / 1000, UTC) for one in found if one.due_ms is not None],
        [one.owner or "" for one in found] if target == "leased" else [],
        scanned, max(total, scanned), None if page.cursor is None else _text_of(target, scanned, total, page.cursor),
        page.moved,
    )  # fmt: skip


def search_pages(
    engine: E,
    target: str,
    where: Match,
    after: str | None,
    *,
    states: Sequence[str],
    page_of: PageOf[E],
    stats: Callable[[E], Exchange[QueueStats]],
) -> Exchange[SearchPage]:
    """Search one page of the messages in a state, for a discipline that reads them as an export does."""
    if target not in states:
        raise ConfigurationError(f"target must be one of {', '.join(states)}, not {target!r}")
    test, at = chosen_by(where), position_of(after, target)
    page = yield from page_of(engine, target, at.cursor)
    total = number_in((yield from stats(engine)), target) if at.total is None else at.total
    return found_in(page, target, test, at, total)


def number_in(stats: QueueStats, target: str) -> int:
    """Return how many messages of a queue are in a state."""
    counts = {
        "ready": stats.ready - stats.isolated, "isolated": stats.isolated, "delayed": stats.delayed,
        "leased": stats.leased, "dead": stats.dead,
    }  # fmt: skip
    return counts[target]


def reasons_in(key: bytes, progress: OnProgress | None = None) -> Exchange[list[ReasonGroup]]:
    """Group the dead letters in a list, the newest first, by reason; the largest group comes first."""
    groups, changes = _Groups(), Changes(progress=progress)
    while not changes.over:
        total, *flat = yield script("lists/failures", list=key, offset=changes.scanned, most=PAGE)
        groups.add(flat[::2], flat[1::2])
        changes.scanned += len(flat) // 2
        changes.tell(max(total, changes.scanned))
        if not flat or changes.scanned >= total:
            break
    return groups.found()


class _Groups:
    """Counts failures by reason."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._newest: dict[str, tuple[int, str]] = {}
        self._oldest: dict[str, int] = {}

    def add(self, ids: Sequence[bytes], lines: Sequence[bytes]) -> None:
        for message_id, line in zip(ids, lines, strict=True):
            failure = last_failure(line)
            reason, at_ms = group_of_reason(failure.reason), failure.at_ms
            self._counts[reason] += 1
            if at_ms > self._newest.get(reason, (-1, ""))[0]:
                self._newest[reason] = at_ms, message_id.decode(errors="replace")
            if at_ms:
                self._oldest[reason] = min(at_ms, self._oldest.get(reason, at_ms))

    def found(self) -> list[ReasonGroup]:
        return [
            ReasonGroup(reason, count, moment(self._oldest.get(reason, 0)), moment(newest), example)
            for reason, count in self._counts.most_common()
            for newest, example in [self._newest[reason]]
        ]


def _text_of(target: str, scanned: int, total: int, cursor: Cursor) -> str:
    made = json.dumps([target, scanned, total, cursor], default=_bytes_out, separators=(",", ":"))
    return base64.urlsafe_b64encode(made.encode()).decode()


def _bytes_out(value: Any) -> dict[str, str]:
    return {"b": base64.b64encode(value).decode()}


def _bytes_in(record: dict[str, Any]) -> bytes:
    return base64.b64decode(record["b"])
