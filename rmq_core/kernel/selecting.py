"""Finds messages that meet conditions, and changes those in a list: a script gets the chosen ones of each page.

Others may change the list meanwhile. The script therefore compares: it changes a message only if it is still near the
place where it was read. If messages moved during a pass over the list, another pass follows, until one finds none.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from rmq_core.envelope import codec
from rmq_core.envelope.codec import message_of
from rmq_core.envelope.export_record import StoredPage
from rmq_core.envelope.matching import Match, Test, chosen_by
from rmq_core.errors import ConfigurationError, MalformedMessage, ScriptFailed
from rmq_core.exchange import Call, Exchange, number_after
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import Keys
from rmq_core.kernel.transfer import Cursor
from rmq_core.policy import moment
from rmq_core.reports import OnProgress, Progress, QueueStats, SearchPage

PAGE = 1000
_AT_ONCE = 250  # letters in a script: it takes a few milliseconds to remove so many from the middle of 100,000


class Place(NamedTuple):
    """A list, and the end from which it is read; messages should be added or removed at that end alone, not at both.

    of: the keys of its queue, if that may store the list in another layout.
    """

    key: bytes
    side: str
    of: Keys | None = None


class Some(NamedTuple):
    """Chosen entries of a list, and the places, counted from the end of `Place`, of the first and the last of them."""

    entries: Sequence[bytes]
    first: int
    last: int


class Markers(NamedTuple):
    """Returns the deduplication keys of some messages, one for each; `window_ms`: how long such keys last."""

    of: Callable[[Sequence[bytes]], list[bytes]]
    window_ms: int


Change = Callable[[Some], Call]
"""Returns the call that changes some entries; its reply is a word and how many were changed."""


@dataclass(slots=True)
class Changes:
    """What a change has done so far. most: the largest number of messages to change, None for all."""

    most: int | None = None
    progress: OnProgress | None = None
    changed: int = 0
    scanned: int = 0
    stopped: bool = field(default=False)

    @property
    def left(self) -> int | None:
        return None if self.most is None else self.most - self.changed

    @property
    def over(self) -> bool:
        return self.stopped or self.left == 0

    def add(self, count: int) -> None:
        """Count messages that were looked at and changed, and report them."""
        self.changed, self.scanned = self.changed + count, self.scanned + count
        self.report(self.scanned)

    def report(self, total: int) -> None:
        """Report progress; note whether the caller wants to stop."""
        if self.progress is not None and self.progress(Progress(self.changed, self.scanned, total)) is False:
            self.stopped = True


def change_chosen(place: Place, test: Test, change: Change, changes: Changes) -> Exchange[int]:
    """Change the messages of a list that pass the test, those at the place's end first; return how many."""
    while True:
        before = changes.changed
        steady = yield from _pass(place, test, change, changes)
        if steady or changes.over or changes.changed == before:
            return changes.changed


def redrive_all(call: Callable[..., Call], changes: Changes) -> Exchange[None]:
    """Redrive dead letters, the oldest first; `call` returns the call that redrives at most `most` of them."""
    while not changes.over:
        most = 1000 if changes.left is None else min(1000, changes.left)
        count = number_after(b"redriven ", (yield call(most=most)))
        if not count:
            break
        changes.add(count)


def drop_chosen(place: Place, test: Test, changes: Changes, markers: Markers | None = None) -> Exchange[int]:
    """Delete the messages of a list that pass the test; return how many."""

    def change(some: Some) -> Call:
        return script(
            "kernel/list_drop_chosen", place.of, list=place.key, markers=markers.of(some.entries) if markers else (),
            side=place.side, first=some.first, last=some.last,
            window_ms=markers.window_ms if markers else 0, letters=some.entries,
        )  # fmt: skip

    return (yield from change_chosen(place, test, change, changes))


class Discarded(NamedTuple):
    """How many messages were deleted. ids: which; none if another client changed some of them meanwhile."""

    deleted: int
    ids: tuple[str, ...] = ()


def discard_chosen(place: Place, message_ids: Iterable[str]) -> Exchange[Discarded]:
    """Delete the messages of a list with these ids. Stops as soon as it has seen each id."""
    wanted = wanted_ids(message_ids)
    missing = set(wanted)

    def test(envelope: bytes) -> bool:
        message_id = id_of(envelope)
        missing.discard(message_id or "")
        return message_id in wanted

    changes = Changes(progress=lambda _: bool(missing))
    deleted = (yield from drop_chosen(place, test, changes)) if wanted else 0
    found = wanted - missing
    return Discarded(deleted, tuple(sorted(found)) if deleted >= len(found) else ())


def id_of(envelope: bytes) -> str | None:
    """Return the id of a stored message; None for text that is no envelope."""
    try:
        return codec.split(envelope).id
    except MalformedMessage:
        return None


def _pass(place: Place, test: Test, change: Change, changes: Changes) -> Exchange[bool]:
    """Go over the list once; return False if entries moved meanwhile, so that some may have been overlooked.

    Looks at no more entries than the list had at the start, so that it ends even if entries are added all the time.
    """
    at, last, end, steady = 0, "", None, True
    changes.scanned = 0
    while not changes.over:
        moved, page, total = yield script(
            "kernel/list_slice", place.of, list=place.key, side=place.side, offset=at, most=PAGE, last=last
        )
        end = total if end is None else end
        chosen = [n for n, entry in enumerate(page) if test(entry)][: changes.left]
        gone = yield from _change(page, chosen, at, change, changes)
        steady = steady and not moved and gone == len(chosen)
        kept = _last_kept(page, chosen)
        last = last if kept is None else hashlib.sha1(kept, usedforsecurity=False).hexdigest()
        at, end = at + len(page) - gone, end - gone
        changes.scanned += len(page)
        changes.report(max(total, changes.scanned))
        if not page or at >= end:
            return steady
    return True


def _change(page: Sequence[bytes], chosen: Sequence[int], at: int, change: Change, changes: Changes) -> Exchange[int]:
    gone = 0
    for some in _parts(page, chosen):
        moved = some._replace(first=some.first + at - gone, last=some.last + at - gone)
        count = _number((yield change(moved)))
        gone, changes.changed = gone + count, changes.changed + count
    return gone


def _parts(page: Sequence[bytes], chosen: Sequence[int]) -> Iterator[Some]:
    for lo in range(0, len(chosen), _AT_ONCE):
        places = chosen[lo : lo + _AT_ONCE]
        yield Some([page[n] for n in places], places[0], places[-1])


def _last_kept(page: Sequence[bytes], chosen: Sequence[int]) -> bytes | None:
    """Return the last entry of a page that is not chosen; None if all are."""
    at, taken = len(page) - 1, len(chosen) - 1
    while at >= 0 and taken >= 0 and chosen[taken] == at:
        at, taken = at - 1, taken - 1
    return page[at] if at >= 0 else None


def _number(reply: bytes) -> int:
    number = reply.rpartition(b" ")[2]
    if not number.isdigit():
        raise ScriptFailed(f"the server answered {reply.decode()!r}")
    return int(number)


def wanted_ids(message_ids: Iterable[str]) -> frozenset[str]:
    """Return ids that an operator chose. Raises ConfigurationError for a single str, or for ids that are not str."""
    if isinstance(message_ids, str):
        raise ConfigurationError("message_ids must be several ids, not one str; pass [message_id]")
    found = frozenset(message_ids)
    for each in found:
        if not isinstance(each, str):
            raise ConfigurationError(f"message_ids must be the str that publish returned, not {each!r}")
    return found


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
        text = base64.urlsafe_b64decode(after.encode())
        known, scanned, total, cursor = json.loads(text, object_hook=lambda record: base64.b64decode(record["b"]))
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
        [moment(one.due_ms) for one in found if one.due_ms is not None],
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


def _text_of(target: str, scanned: int, total: int, cursor: Cursor) -> str:
    parts = [target, scanned, total, cursor]
    made = json.dumps(parts, default=lambda part: {"b": base64.b64encode(part).decode()}, separators=(",", ":"))
    return base64.urlsafe_b64encode(made.encode()).decode()
