"""The journal of a queue: who published, claimed and settled which messages, one entry for each lease or chunk.

The operations note entries, and `journaled` writes them before the operation returns. So the claim of a worker that is
killed afterwards is on record. An entry that a full server refuses is dropped, because consumers have to go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

from rmq_core.errors import ConfigurationError, RedisMessageQueueError
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.messages import Lease
from rmq_core.policy import milliseconds, whole
from rmq_core.queue.base import Engine

R = TypeVar("R")
_MOST_IDS = 1000
_AT_ONCE = 500
_PAGE = 100  # an entry may have 1,000 ids
_ENTRY = re.compile(r"\d{1,20}-\d{1,20}")
_SAME = "\t"
_SETTLED = {"acked", "nacked", "released", "dead"}
_noted: ContextVar[list[dict[str, str]] | None] = ContextVar("rmq_journal", default=None)


class JournalLength(NamedTuple):
    """How long a journal keeps entries: `most` of them, or for `keep_ms` if `most` is 0."""

    most: int
    keep_ms: int

    @classmethod
    def of(cls, journal: int | timedelta | None) -> JournalLength | None:
        """Return the length that a setting stands for; raise ConfigurationError for any other value."""
        if journal is None:
            return None
        if isinstance(journal, timedelta):
            return cls(0, milliseconds("journal", journal, minimum=1))
        return cls(whole("journal", journal, minimum=1), 0)


class JournalKeeper(Engine, Protocol):
    """The part of an engine that a journal needs."""

    keys: Any

    @property
    def journal(self) -> JournalLength | None: ...
    def keep(self, result: Any) -> None:
        """Remember what the caller of an operation will not get, because it was interrupted."""


def note(event: str, *, lease: Lease | None = None, ids: Sequence[str] = (), **about: object) -> None:
    """Note an entry for the operation that runs; nothing happens outside of `journaled`."""
    entries = _noted.get()
    if entries is None:
        return
    held = {} if lease is None else {"l": lease.id, "f": (lease.token or "").partition(".")[0], "o": lease.owner}
    entries.extend(_entries(event, ids, held | {name[0]: str(value) for name, value in about.items()}))


def lines_of(event: str, ids: Sequence[str], **about: object) -> list[str]:
    """Return the entries of an event about these messages as the script takes them."""
    return [_line(entry) for entry in _entries(event, ids, {name[0]: str(value) for name, value in about.items()})]


def _entries(event: str, ids: Sequence[str], fields: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for lo in range(0, max(len(ids), 1), _MOST_IDS):
        entry = {"e": event, **fields, "i": packed(ids[lo : lo + _MOST_IDS])}
        yield {name: value for name, value in entry.items() if value}


def _line(entry: Mapping[str, str]) -> str:
    return json.dumps([part for pair in entry.items() for part in pair])


def journaled(engine: JournalKeeper, exchange: Exchange[R]) -> Exchange[R]:
    """Run an operation and write the entries that it noted before it returns."""
    entries: list[dict[str, str]] = []
    before = _noted.set(entries)
    try:
        result = yield from exchange
    except RedisMessageQueueError:
        yield from _write(engine, entries)
        raise
    finally:
        _noted.reset(before)
    try:
        yield from _write(engine, entries)
    except BaseException:
        engine.keep(result)
        raise
    return result


def _write(engine: JournalKeeper, entries: Sequence[dict[str, str]]) -> Exchange[None]:
    length = engine.journal
    for lo in range(0, len(entries) if length else 0, 100):
        lines = [_line(entry) for entry in entries[lo : lo + 100]]
        try:
            yield script("journal/write", engine.keys, **length._asdict() if length else {}, entries=lines)
        except RedisMessageQueueError:
            return  # the operation has had its effect; a full server refuses the entry


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


def read_journal(engine: JournalKeeper, *, after: str | None = None, until: str | None = None) -> Exchange[JournalPage]:
    """Return the entries after one of them, oldest first, at most 100; without `until` up to the newest one.

    after, until: ids of entries, as an entry or a page has them. Raises ConfigurationError for other texts.
    """
    for name, value in (("after", after), ("until", until)):
        if value is not None and (not isinstance(value, str) or not _ENTRY.fullmatch(value)):
            raise ConfigurationError(f"{name} must be the id of an entry, such as 1764000000000-0, not {value!r}")
    stop, found = yield script("journal/read", engine.keys, after=after or "-", last=until or "", most=_PAGE)
    entries = [JournalEntry.of(each) for each in found]
    if len(entries) < _PAGE:
        return JournalPage(entries, None, None)
    return JournalPage(entries, entries[-1].entry_id, stop.decode())


def entries_about(engine: JournalKeeper, message_id: str, most: int) -> Exchange[tuple[list[JournalEntry], bool]]:
    """Return the entries about a message, oldest first, and whether the whole journal was read: at most `most`."""
    found, leases, after = list[JournalEntry](), dict[str, None](), "-"
    ending = message_id[message_id.rfind("-") :] if "-" in message_id else message_id
    for _ in range(0, most, _AT_ONCE):
        last, entries = yield script(
            "journal/find", engine.keys, after=after, most=_AT_ONCE, whole=message_id, ending=ending,
            leases=list(leases),
        )  # fmt: skip
        for entry in map(JournalEntry.of, entries):
            if message_id in entry.ids and entry.lease_id:
                leases[entry.lease_id] = None
            elif entry.event == "claimed" and entry.ids:
                leases.pop(entry.lease_id, None)  # the id of the lease is used again, for other messages
            if message_id in entry.ids or (not entry.ids and (entry.lease_id in leases or entry.event == "redriven")):
                found.append(entry)
            if message_id in entry.ids and entry.event in _SETTLED:
                leases.pop(entry.lease_id, None)  # what ends the lease later is about its other messages
        if not last:
            return found, True
        after = last.decode()
    return found, False


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


def ids_of(lease: Lease) -> list[str]:
    """Return the ids of the messages that came with a lease; none for a lease whose messages are read later."""
    try:
        return [_id_in(envelope) for envelope in lease.envelopes or ()]
    except ValueError:
        return []  # whoever decodes these messages gets the error


def _id_in(envelope: bytes) -> str:
    """Return the id in an envelope, in a third of the time in which all of it is split."""
    _, _, length, rest = envelope.split(b" ", 3)
    start = int(length)
    return rest[start : rest.index(b" ", start)].decode()


def moment(at_ms: int) -> datetime:
    """Return a time of the server."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)
