"""Flushes what a queue object has counted, and reads the history and the journal of its queue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple, Protocol

from rmq_core.envelope.codec import nonce
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import ConfigurationError, QueueUnavailable, RedisMessageQueueError
from rmq_core.exchange import Call, Command, Exchange, Interrupted, Patience, text_of
from rmq_core.exchange.scripts import script
from rmq_core.kernel.base import Engine, Method
from rmq_core.observe.history import HistoryPoint, Mark, QueueTotals, actor
from rmq_core.observe.tally import Flush, Tally, marked, unpacked
from rmq_core.policy import whole

_LATE_S = 0.5
_RINGS = {"minutes": ("m", 60, 1440), "hours": ("h", 3600, 720)}


class Recorder(Engine, Protocol):
    """The part of an engine that a history needs. `tally` is None if this client does not record.

    gauged: how a flush counts ready messages: the kind of their key, and the keys that it needs.
    """

    keys: Any
    tally: Tally | None

    @property
    def gauged(self) -> dict[str, str | bytes]: ...
    def keep(self, result: Any) -> None:
        """Remember what the caller of an operation will not get, because the flush after it was interrupted."""


def one_attempt() -> Patience:
    """Return the patience of a flush: one attempt, and half a second for its reply."""
    until = monotonic() + _LATE_S
    return Patience(0, given_up=lambda: monotonic() >= until, hurried=True, once=True)


def flush(engine: Recorder, result: Any = None) -> Exchange[None]:
    """Send the counts; keep what cannot be sent for the next flush. result: what the operation before it returned."""
    tally = engine.tally
    for _ in range(2):  # the first flush may be one that failed before
        if tally is not None and (batch := tally.begin()):
            yield from _send(engine, tally, batch, result)


def _send(engine: Recorder, tally: Tally, batch: Flush, result: Any) -> Exchange[None]:
    try:
        yield flushing(engine, tally.client, batch.number, batch.text, batch.marks)
    except (RedisMessageQueueError, Interrupted) as error:
        tally.failed(refused=not isinstance(error, QueueUnavailable | Interrupted))
    except BaseException:
        tally.failed(refused=False)
        engine.keep(result)
        raise
    else:
        tally.done()


def flushing(engine: Recorder, client: str, number: int, sums: str, marks: Sequence[str]) -> Call:
    """Return the call that adds sums and marks to the history; a client numbers its flushes."""
    sent = b"%bslot:%b/h" % (engine.prefix, client.encode())
    return script(
        "observe/history_flush", engine.keys, sent=sent, number=number, sums=sums, marks=marks, **engine.gauged
    )  # fmt: skip


def history(engine: Recorder, *, minutes: int | None = None, hours: int | None = None) -> Exchange[list[HistoryPoint]]:
    """Return what happened in each of the last minutes or hours, oldest first; the last one is not over yet.

    minutes: up to 1,440, 60 when neither is given. hours: up to 720. Clients report about once a second.
    """
    if minutes is not None and hours is not None:
        raise ConfigurationError("pass minutes or hours, not both")
    asked, count = ("hours", hours) if hours is not None else ("minutes", 60 if minutes is None else minutes)
    unit, seconds, ring = _RINGS[asked]
    if whole(asked, count, minimum=1) > ring:
        raise ConfigurationError(f"{asked} must be at most {ring}, not {count}")
    current, kept = yield script(
        "observe/history_read", engine.keys, unit=unit, unit_ms=seconds * 1000, ring=ring, most=count
    )  # fmt: skip
    first = current - count + 1
    return [HistoryPoint.of(first + at, seconds, each and text_of(each)) for at, each in enumerate(kept)]


def totals(engine: Recorder) -> Exchange[QueueTotals]:
    """Return the counts and latencies since the history of the queue began."""
    return QueueTotals.of(text_of((yield Command(("HGET", engine.keys.history, "totals"))) or ""))


def marks(engine: Recorder) -> Exchange[list[Mark]]:
    """Return what operators did to the queue, newest last: pauses, redrives, purges and free marks, at most 50."""
    lines = text_of((yield Command(("HGET", engine.keys.history, "marks"))) or "")
    return [Mark.of(line) for line in lines.splitlines()]


def mark(engine: Recorder, text: str) -> Exchange[None]:
    """Mark this moment in the history, for example `deployed 1.4`; up to 200 characters are kept."""
    if not isinstance(text, str) or not one_line(text):
        raise ConfigurationError(f"text must say what happened, not {text!r}")
    yield flushing(engine, nonce(), 1, "", [marked("mark", actor(), text)])


class Recorded:
    """The part of a queue that has a history."""

    history = Method(history)
    totals = Method(totals)
    marks = Method(marks)
    mark = Method(mark)


_AT_ONCE = 500
_PAGE = 100  # an entry may have 1,000 ids
_ENTRY = re.compile(r"\d{1,20}-\d{1,20}")
_SETTLED = {"acked", "nacked", "released", "dead"}


class Journaled(Engine, Protocol):
    """The part of an engine that reading a journal needs."""

    keys: Any


class JournalEntry(NamedTuple):
    """An entry of a journal. `ids` are the messages it names; a lease that is settled whole names none.

    messages: how many it is about; None if it does not say. entry_id: its place in the journal.
    """

    at_ms: int
    event: str
    lease_id: str
    fence: str
    owner: str
    by: str
    detail: str
    ids: tuple[str, ...]
    messages: int | None = None
    entry_id: str = ""

    @classmethod
    def of(cls, stored: Sequence[Any]) -> JournalEntry:
        """Return the entry of an element of a stream."""
        parts = [part.decode() for part in stored[1]]
        fields = dict(zip(parts[::2], parts[1::2], strict=True))
        at_ms = int(stored[0].partition(b"-")[0])
        lease_id, fence, owner, by, detail = (fields.get(name, "") for name in "lfobr")
        ids, number = tuple(unpacked(fields.get("i", ""))), fields.get("n")
        count = int(number) if number else len(ids) or None
        return cls(at_ms, fields["e"], lease_id, fence, owner, by, detail, ids, count, stored[0].decode())


class JournalPage(NamedTuple):
    """Entries of a journal, oldest first. after, until: pass both on to get the next page; None after the last one."""

    entries: list[JournalEntry]
    after: str | None
    until: str | None


def read_journal(engine: Journaled, *, after: str | None = None, until: str | None = None) -> Exchange[JournalPage]:
    """Return the entries after one of them, oldest first, at most 100; without `until` up to the newest one.

    after, until: ids of entries, as an entry or a page has them. Raises ConfigurationError for other texts.
    """
    for name, value in (("after", after), ("until", until)):
        if value is not None and (not isinstance(value, str) or not _ENTRY.fullmatch(value)):
            raise ConfigurationError(f"{name} must be the id of an entry, such as 1764000000000-0, not {value!r}")
    stop, found = yield script("observe/journal_read", engine.keys, after=after or "-", last=until or "", most=_PAGE)
    entries = [JournalEntry.of(each) for each in found]
    if len(entries) < _PAGE:
        return JournalPage(entries, None, None)
    return JournalPage(entries, entries[-1].entry_id, stop.decode())


def entries_about(engine: Journaled, message_id: str, most: int) -> Exchange[tuple[list[JournalEntry], bool]]:
    """Return the entries about a message, oldest first, and whether the whole journal was read: at most `most`."""
    found, leases, after = list[JournalEntry](), dict[str, str](), "-"
    ending = message_id[message_id.rfind("-") :] if "-" in message_id else message_id
    for _ in range(0, most, _AT_ONCE):
        last, entries = yield script(
            "observe/journal_find", engine.keys, after=after, most=_AT_ONCE, whole=message_id, ending=ending,
            leases=list(leases),
        )  # fmt: skip
        for entry in map(JournalEntry.of, entries):
            if message_id in entry.ids and entry.lease_id:
                leases[entry.lease_id] = entry.fence
            elif entry.event == "claimed" and entry.ids and leases.get(entry.lease_id) != entry.fence:
                leases.pop(entry.lease_id, None)  # the id of the lease is used again, for other messages
            if message_id in entry.ids or (not entry.ids and (entry.lease_id in leases or entry.event == "redriven")):
                found.append(entry)
            if message_id in entry.ids and entry.event in _SETTLED:
                leases.pop(entry.lease_id, None)  # what ends the lease later is about its other messages
        if not last:
            return found, True
        after = last.decode()
    return found, False
