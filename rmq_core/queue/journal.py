"""Reads the journal of a queue, which `rmq_core.observe.journal` writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.observe.entries import unpacked
from rmq_core.queue.base import Engine

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
    stop, found = yield script("journal/read", engine.keys, after=after or "-", last=until or "", most=_PAGE)
    entries = [JournalEntry.of(each) for each in found]
    if len(entries) < _PAGE:
        return JournalPage(entries, None, None)
    return JournalPage(entries, entries[-1].entry_id, stop.decode())


def entries_about(engine: Journaled, message_id: str, most: int) -> Exchange[tuple[list[JournalEntry], bool]]:
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


def moment(at_ms: int) -> datetime:
    """Return a time of the server."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)
