"""`Tally`: the sink of the history, what a queue object has counted since its last flush.

Each mark carries entries for the journal. The flush that stores the mark adds them if the queue keeps a journal, so an
operator's process needs no journal setting.

Noting appends to a deque, which threads may do at once; the sums are made once a second, when `rmq_core.admin.history`
flushes them. A tally that cannot be flushed keeps its sums, so it stays small however long Redis does not take them.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import frexp, inf
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from rmq_core.envelope.payloads import one_line
from rmq_core.events import Operation
from rmq_core.messages import Lease
from rmq_core.observe.history import LETTERS, actor, bucket_below

if TYPE_CHECKING:  # its module imports this one
    from rmq_core.observe.fact import Act

_IDS_OF_A_LINE = 1000
_SAME = "\t"


def lines_of(event: str, ids: Sequence[str], **about: object) -> list[str]:
    """Return the entries of an event about these messages, as the script takes them. about: by the names of fields."""
    return list(lines(event, ids, {name[0]: str(value) for name, value in about.items()}))


def lines(event: str, ids: Sequence[str], fields: Mapping[str, str]) -> Iterator[str]:
    """Yield entries of at most 1,000 messages; fields without a value are left out."""
    for lo in range(0, max(len(ids), 1), _IDS_OF_A_LINE):
        entry = {"e": event, **fields, "i": packed(ids[lo : lo + _IDS_OF_A_LINE])}
        yield json.dumps([part for pair in entry.items() if pair[1] for part in pair])


def packed(ids: Iterable[str]) -> str:
    """Return ids as one text. Of an id that is like the one before it up to the last `-`, the rest follows a tab."""
    words, prefix = list[str](), ""
    for each in ids:
        begin, dash, end = each.rpartition("-")
        words.append(f"{_SAME}-{end}" if dash and begin == prefix else each)
        prefix = begin
    return " ".join(words)


def unpacked(text: str) -> Iterator[str]:
    """Yield the ids of a packed text."""
    prefix = ""
    for word in text.split(" ") if text else ():
        whole_id = f"{prefix}{word[1:]}" if word.startswith(_SAME) else word
        prefix = whole_id.rpartition("-")[0]
        yield whole_id


_MOST_IDS = 10_000
_LONGEST_ID = 150


class Action(NamedTuple):
    """An action of an operator; what he does to several messages within a second becomes one mark."""

    kind: Act
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
    if not (entries and acted.ids and done.kind.entry):
        return line
    return "\n".join([line, *lines_of(done.kind.entry, acted.ids, n=len(acted.ids), by=done.by, r=done.detail)])


def text_of(acted: Acted) -> str:
    """Return how many messages it was, or which one."""
    if acted.count == 1 and acted.ids and len(acted.ids[0]) <= _LONGEST_ID:
        return f"message {acted.ids[0]}"
    return f"{acted.count} message{'' if acted.count == 1 else 's'}"


INTERVAL_S = 1.0
_LONGEST_PAUSE_S = 60.0
_FORGOTTEN_S = 300.0  # half the time for which a server remembers the number of a flush
_STAMP = 40  # bytes at the beginning of an envelope that hold deliveries and time
_MOST_MARKS = 50
_MARK = "mark"
_ACTION = "action"
_REDRIVE = "redrive"
_CLAIM, _TAKEOVER = Operation.CLAIM, Operation.TAKEOVER  # looking a member up takes longer than noting it
_ACK, _NACK = Operation.ACK, Operation.NACK
_SHORTEST_S, _SHORTEST_POWER = 2.0**-8, -7
_LETTER_OF = {
    Operation.PUBLISH: "p", Operation.DUPLICATE: "u", Operation.DROP: "o", Operation.CLAIM: "c", Operation.ACK: "a",
    Operation.NACK: "n", Operation.RELEASE: "r", Operation.RECLAIM: "e", Operation.TAKEOVER: "t", Operation.DEAD: "d",
    Operation.REDRIVE: "v", Operation.LOST: "l", Operation.ISOLATE: "i",
    Operation.REPLACE: "x",
}  # fmt: skip
assert set(_LETTER_OF.values()) == set(LETTERS)  # noqa: S101  a count without a letter would get lost


class Flush(NamedTuple):
    """What one flush sends. The server recognises it by the number if it is sent again."""

    number: int
    sums: dict[str, int]
    marks: list[str]
    born: float

    @property
    def text(self) -> str:
        """The sums as items of the stored format, in one order."""
        return " ".join(f"{name}{value}" for name, value in sorted(self.sums.items()))


class Tally:
    """Counts of one queue object. `noted` holds events that are not summed yet; `next_at` is when to look again.

    entries: whether marks of single messages have entries for the journal along, as this client writes none itself.
    """

    __slots__ = (
        "__weakref__", "_acted", "_acted_at", "_counts", "_failures", "_flushing", "_marks", "_number",
        "_processing", "_retry_at", "_unsure", "_waits", "client", "entries", "next_at", "noted",
    )  # fmt: skip

    def __init__(self, *, entries: bool = False) -> None:
        self.entries = entries
        self._renew()
        _tallies.add(self)

    def _renew(self) -> None:
        """Begin anew: a forked child must not count the events of its parent."""
        self.noted: deque[tuple[Any, ...]] = deque()
        self.client = os.urandom(8).hex()
        self.next_at = self._retry_at = self._acted_at = -inf
        self._acted: dict[Action, Acted] = {}
        self._counts: dict[Any, int] = {}
        self._waits, self._processing = Spans(), Spans()
        self._marks: list[str] = []
        self._unsure: Flush | None = None
        self._number = self._failures = 0
        self._flushing = Lock()

    @property
    def failing(self) -> bool:
        """Whether the last flush failed."""
        return self._failures > 0

    def take(
        self, kind: Any, count: int, lease: Lease | str | None, lease_ms: int | str | None, seconds: float | None
    ) -> None:
        """Note a fact: how many messages, how long after their claim they were acked or nacked.

        lease_ms: for a claim, from which follows how long the first and the last of its messages have waited.
        """
        if lease is None or isinstance(lease, str):
            self.noted.append((kind, count) if seconds is None else (kind, count, seconds))
        elif kind is _ACK or kind is _NACK:
            began = lease.state.began
            self.noted.append((kind, count, monotonic() - began) if began else (kind, count))
        elif kind is _CLAIM or kind is _TAKEOVER:
            lease.state.began = monotonic()
            envelopes = lease.envelopes
            if kind is _CLAIM and lease_ms is not None and envelopes and lease.deadline_ms is not None:
                at_ms = lease.deadline_ms - int(lease_ms)
                self.noted.append((kind, count, at_ms, envelopes[0][:_STAMP], envelopes[-1][:_STAMP]))
            else:
                self.noted.append((kind, count))
        else:
            self.noted.append((kind, count))

    def acted(
        self, kind: Act, count: int, ids: Iterable[str], by: str | Mapping[str, str] | None, text: str | None
    ) -> None:
        """Note what an operator did: to messages that are named, or else to the whole queue.

        Acts of the same kind on messages within a second become one mark. Any other is a mark of its own, which is
        flushed after the operation.
        """
        who = one_line(by if isinstance(by, str) else None) or actor()
        if not ids:
            self.noted.append((_MARK, marked(kind, who, str(count) if kind == _REDRIVE else text or "")))
            self.next_at = self._retry_at = -inf
            return
        done = Action(kind, who, one_line(text))
        self.noted.append((_ACTION, count, done, ids))
        now = monotonic()
        if now >= self._acted_at:
            self.next_at, self._acted_at = -inf, now + INTERVAL_S

    def clear(self) -> None:
        """Forget everything that is not flushed."""
        self.noted.clear()
        self._taken()
        self._acted = {}
        self._marks, self._unsure = [], None

    def begin(self) -> Flush | None:
        """Return what to flush; None if there is nothing, or another thread flushes, or the last attempt just failed.

        The caller ends it with `done` or `failed`.
        """
        if not self._flushing.acquire(blocking=False):
            return None
        now = monotonic()
        self.next_at = now + INTERVAL_S
        self._sum_up()
        if self._unsure and now - self._unsure.born > _FORGOTTEN_S:
            self._unsure = None  # whether it was counted cannot be found out any more
        if self._unsure is None and (self._counts or self._marks or self._acted):
            self._number += 1
            marks = self._marks + [mark_of(*each, entries=self.entries) for each in self._acted.items()]
            self._unsure = Flush(self._number, self._taken(), marks, now)
            self._marks, self._acted = [], {}
        if self._unsure is None or now < self._retry_at:
            self._flushing.release()
            return None
        return self._unsure

    def done(self) -> None:
        """End a flush that was counted."""
        self._unsure, self._failures, self._retry_at = None, 0, -inf
        self._flushing.release()

    def failed(self, *, refused: bool) -> None:
        """End a flush that failed. It is sent again later, under the same number, as it may have been counted.

        refused: it was certainly not counted.
        """
        now = monotonic()
        self._failures += 1
        self._retry_at = now + min(2.0 ** min(self._failures, 6), _LONGEST_PAUSE_S)
        if refused and self._unsure:
            self._unsure = self._unsure._replace(born=now)
        self._flushing.release()

    def _sum_up(self) -> None:
        """Add up what was noted. It runs for each event of a busy queue, so it makes few calls."""
        counts, noted = self._counts, self.noted
        with suppress(IndexError):
            while True:
                what, count, *about = noted.popleft()
                if what == _MARK:
                    self._marks = [*self._marks, count][-_MOST_MARKS:]
                    continue
                if what == _ACTION:
                    action, ids = about
                    self._acted.setdefault(action, Acted()).add(count, ids)
                    continue
                counts[what] = counts.get(what, 0) + count
                if len(about) == 1:
                    self._processing.add(about[0], count)
                elif about:
                    at_ms, first, last = about
                    self._waited(at_ms, first, count - count // 2)
                    if count > 1:
                        self._waited(at_ms, last, count // 2)

    def _waited(self, at_ms: int, stamp: bytes, count: int) -> None:
        """Add how long a message waited, `count` times. A message that was delivered before did not only wait."""
        enqueued = stamp[2:].partition(b" ")[0]
        if enqueued.isdigit() and stamp.startswith(b"0 "):
            self._waits.add((at_ms - int(enqueued)) / 1000, count)

    def _taken(self) -> dict[str, int]:
        """Return the sums as items of the stored format, and begin anew."""
        sums = {f"{_LETTER_OF[what]}+": count for what, count in self._counts.items()}
        sums |= self._waits.items("w") | self._processing.items("s")
        self._counts, self._waits, self._processing = {}, Spans(), Spans()
        return sums


class Spans:
    """Durations that are being added up. `powers` counts them by the power of two above them."""

    __slots__ = ("longest", "powers", "total")

    def __init__(self) -> None:
        self.powers: dict[int, int] = {}
        self.total = self.longest = 0.0

    def add(self, seconds: float, count: int) -> None:
        power = frexp(seconds)[1] if seconds > _SHORTEST_S else _SHORTEST_POWER
        self.powers[power] = self.powers.get(power, 0) + count
        self.total += seconds * count
        self.longest = max(self.longest, seconds)

    def items(self, letter: str) -> dict[str, int]:
        """Return the durations as items of the stored format."""
        found: dict[str, int] = {}
        for power, count in self.powers.items():
            item = f"{letter}{bucket_below(power)}+"
            found[item] = found.get(item, 0) + count
        if found:
            found |= {f"{letter}s+": round(self.total * 1000), f"{letter}x^": round(self.longest * 1000)}
        return found


def marked(kind: str, by: str, text: str) -> str:
    """Return the line of a mark, without its time."""
    return "\t".join(one_line(part) for part in (kind, by, text))


_tallies: WeakSet[Tally] = WeakSet()


def _renew_all() -> None:
    for tally in list(_tallies):
        tally._renew()  # noqa: SLF001  the same module


os.register_at_fork(after_in_child=_renew_all)
