"""What operators do to single messages: edit, discard, run now, cancel, redrive.

Each action is a mark, and an entry of the journal. An operator's process need not be set to keep a journal: the flush
of its mark adds the entry if the queue has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmq_core.envelope.payloads import one_line
from rmq_core.history import actor
from rmq_core.queue.journal import lines_of, note

EVENTS = {"edit": "edited", "discard": "deleted", "run-now": "run now", "cancel": "cancelled", "redrive": "redriven"}
"""The kinds of marks, and the events of the journal that say the same about each message."""
_MOST_IDS = 10_000
_LONGEST_ID = 150


class Action(NamedTuple):
    """An action of an operator; what he does to several messages within a second becomes one mark."""

    kind: str
    by: str
    detail: str
    in_journal: bool


class Acted:
    """The messages of an action. ids: those that are known, 10,000 at most."""

    __slots__ = ("count", "ids")

    def __init__(self) -> None:
        self.count = 0
        self.ids: list[str] = []

    def add(self, count: int, ids: Sequence[str]) -> None:
        self.count += count
        self.ids += ids[: _MOST_IDS - len(self.ids)]


def action(kind: str, by: str = "", detail: str = "", *, in_journal: bool = False) -> Action:
    """Return an action of whoever acts, or of `by`."""
    return Action(kind, one_line(by) or actor(), one_line(detail), in_journal)


def journal_action(done: Action, count: int, ids: Sequence[str]) -> None:
    """Note an action for the journal that this client keeps."""
    note(EVENTS[done.kind], ids=ids, n=count, by=done.by, r=done.detail)


def mark_of(done: Action, acted: Acted) -> str:
    """Return the line of a mark, and behind it the lines for the journal, unless the action is in it already."""
    line = "\t".join((done.kind, one_line(done.by), text_of(acted)))
    if done.in_journal or not acted.ids:
        return line
    return "\n".join([line, *lines_of(EVENTS[done.kind], acted.ids, n=len(acted.ids), by=done.by, r=done.detail)])


def text_of(acted: Acted) -> str:
    """Return how many messages it was, or which one."""
    if acted.count == 1 and acted.ids and len(acted.ids[0]) <= _LONGEST_ID:
        return f"message {acted.ids[0]}"
    return f"{acted.count} message{'' if acted.count == 1 else 's'}"
