"""The timeline of a message: joins what its envelope, its lease, the marks and the journal say about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmq_core.admin.history import JournalEntry, entries_about, marks
from rmq_core.envelope.codec import Failure, Message, message_of, publisher_of, split
from rmq_core.envelope.export_record import group_of
from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.leased.inspecting import leases
from rmq_core.leased.reading import read_call
from rmq_core.leased.state import LeasedEngine
from rmq_core.observe.fact import ENTRIES
from rmq_core.observe.history import Mark, Step, Timeline
from rmq_core.policy import moment
from rmq_core.reports import LeaseInfo

_LONG_HISTORY = 900  # bytes: beyond 1 KiB, the oldest lines are dropped
_MOST, _SLICE, _LEASES, _ENTRIES = 100_000, 1000, 1000, 100_000
_PLACES = (
    ("ready", "list"), ("delayed", "zset"), ("dead", "list"), ("completed", "list"), ("failed", "list"),
)  # fmt: skip
_PAST = {"nack": "nacked", "moved": "dead-lettered"}
_BEGINS = {"claimed", "taken over", "handed over"}
_NEAR_S = 2  # a message and the journal mean the same event by times this near


class Found(NamedTuple):
    """Where a message is. `score` is that in the set of delayed messages; `lease` is the one that holds it.

    history: that of its failures, as it is stored.
    """

    state: str
    message: Message
    score: float = 0
    lease: LeaseInfo | None = None
    history: bytes = b""


class Held(NamedTuple):
    """A message that a lease holds."""

    lease: LeaseInfo
    envelope: bytes


def why(engine: LeasedEngine, message_id: str) -> Exchange[Timeline]:
    """Return the timeline of a message: the steps that are known, and what cannot be known.

    Reads at most 100,000 messages of each part of the queue, those of 1,000 leases, and 100,000 entries of the journal.
    """
    if not isinstance(message_id, str) or not message_id or " " in message_id:
        raise ConfigurationError(f"message_id must be the id that publish returned, not {message_id!r}")
    found, partly = yield from _find(engine, message_id)
    entries, read_all = yield from entries_about(engine, message_id, _ENTRIES)
    has_journal = bool(entries) or engine.journal is not None or bool((yield from _journal_length(engine)))
    history = found.message.history if found else ()
    same = _same(entries, history)
    holders = _holders(entries)
    for place, number in same.items():
        holders[place] = holders[place] or history[number].owner
    steps = [_of_entry(entry, message_id, found, holder) for entry, holder in zip(entries, holders, strict=True)]
    unknown = list(_unknown(found, partly, has_journal=has_journal, read_all=read_all, entries=entries))
    if found:
        steps += _of_message(found, entries, set(same.values()))
    steps += yield from _of_marks(engine, message_id, found, entries)
    return Timeline(
        engine.name, message_id, found.state if found else "gone", tuple(_ordered(steps)), tuple(unknown),
        _deliveries(entries) if has_journal else None,
        len({(entry.lease_id, entry.fence) for entry in entries if entry.event == "acked"}) if has_journal else None,
    )  # fmt: skip


def _find(engine: LeasedEngine, message_id: str) -> Exchange[tuple[Found | None, list[str]]]:
    """Return where a message is, and the parts of the queue that were too long to be read to their end."""
    partly: list[str] = []
    held, whole = yield from find_held(engine, message_id)
    if held:
        return Found("leased", message_of(held.envelope), 0, held.lease, split(held.envelope).history), partly
    if not whole:
        partly.append(f"more than {_LEASES:,} leases")
    for place, kind in _PLACES:
        found, whole = yield from _look(engine, engine.keys.of(place), kind, message_id)
        if found:
            score = float(found[2] or 0)
            state = "isolated" if kind == "zset" and score < 0 else place
            return Found(state, message_of(found[1]), score, None, split(found[1]).history), partly
        if not whole:
            partly.append(place)
    return None, partly


def find_held(engine: LeasedEngine, message_id: str) -> Exchange[tuple[Held | None, bool]]:
    """Return where an unsettled message is in a lease, and whether all leases were looked at; reads at most 1,000."""
    held = yield from leases(engine, _LEASES)
    for lease in held:
        if found := (yield from in_lease(engine, lease.id, message_id)):
            return Held(lease, found[1]), True
    return None, len(held) < _LEASES


def in_lease(engine: LeasedEngine, lease_id: str, message_id: str) -> Exchange[tuple[int, bytes] | None]:
    """Return the index and the envelope of an unsettled message of a lease; None if it holds none of this id."""
    found, _ = yield from _look(engine, engine.keys.lease(lease_id), "list", message_id, 1)
    if not found:
        return None
    index = found[0] - 2
    reply = yield read_call(engine.keys, lease_id, "", index, index + 1)
    bits, at = (reply[3], index - reply[2] * 8) if reply[0] == b"read" else (b"", 0)
    settled = bits and bits[at // 8] >> (7 - at % 8) & 1
    return None if settled else (index, found[1])


def _look(
    engine: LeasedEngine, key: bytes, kind: str, message_id: str, first: int = 0
) -> Exchange[tuple[tuple[int, bytes, bytes] | None, bool]]:
    """Return the index behind a message, its envelope and score, or None; and whether all entries were read."""
    at = first
    while at < _MOST:
        after, total, envelope, score = yield script(
            "observe/history_find", engine.keys, key=key, id=message_id, kind=kind, first=at, last=at + _SLICE - 1
        )
        if envelope:
            return (after, envelope, score), True
        if after >= total:
            return None, True
        at = after
    return None, False


def _of_message(found: Found, entries: Sequence[JournalEntry], in_journal: set[int]) -> list[Step]:
    """Return what the envelope of a message says and the journal does not, and where the message is.

    in_journal: the places in its history of the failures that the journal says, too.
    """
    message, events = found.message, {entry.event for entry in entries}
    steps = [] if "published" in events else [Step(message.enqueued_at, "published", publisher_of(message.headers))]
    steps += [
        Step(each.at, _PAST.get(each.kind, each.kind), each.owner, "", each.reason)
        for place, each in enumerate(message.history)
        if place not in in_journal
    ]
    if found.state == "dead" and "dead" not in events:
        at, who = (message.history[-1].at, message.history[-1].owner) if message.history else (None, "")
        steps.append(Step(at, "dead", who, "", f"after {message.deliveries} deliveries"))
    return steps + _now(found)


def _now(found: Found) -> list[Step]:
    lease = found.lease
    if lease:
        since = f"since {lease.claimed_at:%Y-%m-%d %H:%M:%S}"
        until = f"until {lease.deadline:%Y-%m-%d %H:%M:%S} UTC" if lease.deadline else "for ever"
        taken = f"; taken over {lease.takeovers} times" if lease.takeovers else ""
        count = f"{lease.count - lease.settled} of {lease.count} messages unsettled"
        return [Step(None, "held", lease.owner, lease.id, f"{since} {until}; {count}{taken}", "lease")]
    if found.state == "delayed":
        return [Step(moment(int(found.score)), "due")]
    if found.state == "isolated":
        together = f"failed together with others (group {group_of(found.history)}), tried apart"
        return [Step(None, "isolated", detail=together)]
    return []


def _holders(entries: Sequence[JournalEntry]) -> list[str]:
    """Return who held the lease of each entry: whoever takes messages back does not name him, but his claim does."""
    holders: dict[str, str] = {}
    found = []
    for entry in entries:
        if entry.event in _BEGINS:
            holders[entry.lease_id] = entry.owner
        found.append(entry.owner or holders.get(entry.lease_id, ""))
    return found


def _same(entries: Sequence[JournalEntry], history: Sequence[Failure]) -> dict[int, int]:
    """Return which failure of a message an entry of the journal is about, by their places; each is used once."""
    left, found = [*enumerate(history)], {}
    for place, (entry, holder) in enumerate(zip(entries, _holders(entries), strict=True)):
        at = moment(entry.at_ms)
        for number, failure in left:
            if (
                entry.event == _PAST.get(failure.kind, failure.kind)
                and abs((failure.at - at).total_seconds()) < _NEAR_S
                and holder in {"", failure.owner}
            ):
                found[place] = number
                left.remove((number, failure))
                break
    return found


def _of_entry(entry: JournalEntry, message_id: str, found: Found | None, holder: str) -> Step:
    others, at = (entry.messages or len(entry.ids)) - 1, moment(entry.at_ms)  # a large claim takes several entries
    among = f"with {others:,} {'other' if others == 1 else 'others'}" if message_id in entry.ids and others else ""
    named = publisher_of(found.message.headers) if found and entry.event == "published" else ""
    held = f"held by {holder}" if entry.by and holder else ""
    return Step(at, entry.event, named or entry.by or holder, entry.lease_id, entry.detail or among or held, "journal")


def _of_marks(
    engine: LeasedEngine, message_id: str, found: Found | None, entries: Sequence[JournalEntry]
) -> Exchange[list[Step]]:
    """Return what operators did to the queue since the message is known, and what they did to the message itself."""
    begins = [moment(entry.at_ms) for entry in entries if entry.ids] + ([found.message.enqueued_at] if found else [])
    events, own = {entry.event for entry in entries}, f"message {message_id}"
    events |= {_PAST.get(each.kind, each.kind) for each in (found.message.history if found else ())}
    return [
        Step(mark.at, _what(mark, own), mark.by, "", mark.text, "marks")
        for mark in (yield from marks(engine))
        if (mark.text == own or (begins and mark.at >= min(begins))) and _concerns(mark, own, events, found)
    ]


def _what(mark: Mark, own: str) -> str:
    return ENTRIES.get(mark.kind, mark.kind) if mark.text == own else f"queue: {mark.kind}"


def _concerns(mark: Mark, own: str, events: set[str], found: Found | None) -> bool:
    """Return whether a mark may be about a message, and neither its history nor the journal says the same."""
    if mark.kind == "redrive" and not mark.text.startswith("message "):
        return "redriven" not in events
    if mark.kind not in ENTRIES:
        return True
    if mark.text == own:
        return ENTRIES[mark.kind] not in events
    removed = mark.kind in {"discard", "cancel"}
    return not events and not mark.text.startswith("message ") and not (removed and found)


def _unknown(
    found: Found | None, partly: Sequence[str], *, has_journal: bool, read_all: bool, entries: Sequence[JournalEntry]
) -> list[str]:
    unknown = []
    if found is None and partly:
        unknown.append(f"it may still be in {', '.join(partly)}: only a part of that was read")
    if not has_journal:
        unknown.append("the queue has no journal, so claims and acks are unknown: set LeasedConfig(journal=...)")
        if found is None:
            unknown.append("it was acked, dropped, replaced, removed by an operator, or never published. Check the id")
        elif not publisher_of(found.message.headers):
            unknown.append("who published it: it has no headers that say so")
    elif found is None and not entries:
        unknown.append("the journal does not name this id: check the id, or the journal does not reach back so far")
    elif not any(entry.event == "published" for entry in entries):
        unknown.append("who published it: the journal does not reach back so far, or its publisher writes none")
    if has_journal and not read_all:
        unknown.append("what the newest entries of the journal say: it has more than were read")
    if found and len(found.history) > _LONG_HISTORY:
        unknown.append("its oldest failures: a message keeps the newest KiB of them")
    return unknown


def _journal_length(engine: LeasedEngine) -> Exchange[int]:
    reply: list[object] = yield script(
        "observe/journal_find", engine.keys, after="-", most=1, whole="", ending="", leases=[]
    )
    return int(bool(reply[0]))


def _deliveries(entries: Sequence[JournalEntry]) -> int:
    """Return how often a message was delivered. A hand-over counts only if the journal lacks the claim before it."""
    found = {(entry.lease_id, entry.fence) for entry in entries if entry.event in {"claimed", "taken over"}}
    known = {lease_id for lease_id, _ in found}
    return len(found) + len({entry.lease_id for entry in entries if entry.event == "handed over"} - known)


def _ordered(steps: Sequence[Step]) -> list[Step]:
    """Return the steps in order of time; those without a time come last."""
    known = [(step.at, step) for step in steps if step.at is not None]
    return [step for _, step in sorted(known, key=lambda pair: pair[0])] + [step for step in steps if step.at is None]
