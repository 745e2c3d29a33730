"""The marks of what operators do to single messages: edit, discard, run now, cancel, redrive.

Each mark carries entries for the journal. The flush that stores the mark adds them if the queue keeps a journal, so an
operator's process needs no journal setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from rmq_core.envelope.payloads import one_line
from rmq_core.observe.entries import lines_of

EVENTS = {"edit": "edited", "discard": "deleted", "run-now": "run now", "cancel": "cancelled", "redrive": "redriven"}
"""The kinds of marks, and the events of the journal that say the same about each message."""
_MOST_IDS = 10_000
_LONGEST_ID = 150


class Action(NamedTuple):
    """An action of an operator; what he does to several messages within a second becomes one mark."""

    kind: str
    by: str
    detail: str


class Acted:
    """The messages of an action. ids: those that are known, 10,000 at most."""

    __slots__ = ("count", "ids")

    def __init__(self) -> None:
        self.count = 0
        self.ids: list[str] = []

    def add(self, count: int, ids: Iterable[str]) -> None:
        self.count += count
        self.ids += islice(ids, _MOST_IDS - len(self.ids))


def mark_of(done: Action, acted: Acted, *, entries: bool) -> str:
    """Return the line of a mark, and behind it the lines for the journal if `entries` is true."""
    line = "\t".join((done.kind, one_line(done.by), text_of(acted)))
    if not (entries and acted.ids):
        return line
    return "\n".join([line, *lines_of(EVENTS[done.kind], acted.ids, n=len(acted.ids), by=done.by, r=done.detail)])


def text_of(acted: Acted) -> str:
    """Return how many messages it was, or which one."""
    if acted.count == 1 and acted.ids and len(acted.ids[0]) <= _LONGEST_ID:
        return f"message {acted.ids[0]}"
    return f"{acted.count} message{'' if acted.count == 1 else 's'}"
