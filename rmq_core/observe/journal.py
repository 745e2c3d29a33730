"""Writes the journal of a queue: who published, claimed and settled which messages, an entry for each lease or chunk.

A call's entries are written before it returns. So the claim of a worker that is killed afterwards is on record. An
entry that a full server refuses is dropped, because consumers have to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from rmq_core.envelope.codec import publisher_of
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import RedisMessageQueueError
from rmq_core.events import Operation
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.messages import Lease
from rmq_core.observe.fact import Act, Begin, Fact, Invocation
from rmq_core.observe.history import actor
from rmq_core.observe.tally import lines
from rmq_core.policy import milliseconds, whole

_AT_ONCE = 100
_WORDS: dict[str, str] = {
    Operation.PUBLISH: "published", Operation.CLAIM: "claimed", Operation.TAKEOVER: "taken over",
    Operation.ACK: "acked", Operation.NACK: "nacked", Operation.RELEASE: "released", Operation.RECLAIM: "expired",
    Operation.DEAD: "dead", Operation.REPLACE: "replaced",
}  # fmt: skip
_UNNUMBERED = {Operation.PUBLISH, Operation.DEAD, Operation.REPLACE}
"""Facts whose entries name each message."""


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


class Entries:
    """The sink of one call: the entries of its facts, each as event, fields and ids."""

    def __init__(self) -> None:
        self._found: list[tuple[str, dict[str, str], list[str]]] = []

    def __call__(self, fact: Fact) -> None:
        if isinstance(fact.kind, Act):
            if fact.kind.entry:
                about = {"b": who(fact), "r": one_line(fact.reason)}
                self._found.append((fact.kind.entry, {"n": str(fact.count), **about}, list(fact.ids)))
        elif fact.kind is Operation.CLAIM and not isinstance(fact.lease, Lease):
            pass  # more messages of a large lease, whose claim has its entry
        elif fact.kind in _WORDS:
            self._add(fact)

    def lines(self) -> list[str]:
        """Return the entries as the script takes them."""
        return [line for event, fields, ids in self._found for line in lines(event, ids, fields)]

    def _add(self, fact: Fact) -> None:
        event, fields, ids = fact.word or _WORDS[fact.kind], _lease_of(fact), list(fact.ids)
        if not ids and fact.message_id is not None:
            ids = [fact.message_id]
        if fact.kind is Operation.PUBLISH:
            fields = {"b": who(fact)}
            if not ids:
                return  # staged messages, whose ids are not known
        elif fact.kind is Operation.REPLACE and fact.by is not None:  # None: any client may finish a commit
            fields = {"b": who(fact)}
        elif fact.kind is Operation.CLAIM:
            ids = ids_of(fact.lease)
        if fact.kind not in _UNNUMBERED:
            fields["n"] = str(fact.count)
        if fact.reason:
            fields["r"] = fact.reason
        if fact.by and isinstance(fact.by, str):
            fields["b"] = fact.by
        if fact.kind is Operation.DEAD and self._found and self._found[-1][:2] == (event, fields):
            self._found[-1][2].extend(ids)  # dead letters are stated one by one
        else:
            self._found.append((event, fields, ids))


def who(fact: Fact) -> str:
    """Return who did what the holder of a lease does not do."""
    return (one_line(fact.by) if isinstance(fact.by, str) else publisher_of(fact.by or {})) or actor()


def journaled(begin: Begin, call: Invocation) -> Exchange[Any]:
    """Run an operation with an engine of its own, whose facts are written before it returns."""
    engine, entries = call.engine, Entries()
    try:
        result = yield from begin(call._replace(engine=engine.seen_by(entries)))
    except RedisMessageQueueError:
        yield from _write(engine, entries.lines())
        raise
    try:
        yield from _write(engine, entries.lines())
    except BaseException:
        engine.keep(result)
        raise
    return result


def _write(engine: Any, found: Sequence[str]) -> Exchange[None]:
    for lo in range(0, len(found), _AT_ONCE):
        some = found[lo : lo + _AT_ONCE]
        try:
            yield script("observe/journal_write", engine.keys, **engine.journal._asdict(), entries=some)
        except RedisMessageQueueError:
            return  # the operation has had its effect; a full server refuses the entry


def ids_of(lease: Any) -> list[str]:
    """Return the ids of the messages that came with a lease; none for a lease whose messages are read later."""
    try:
        return [_id_in(envelope) for envelope in lease.envelopes or ()]
    except ValueError:
        return []  # decoding the messages raises the error


def _lease_of(fact: Fact) -> dict[str, str]:
    lease = fact.lease
    if not isinstance(lease, Lease):
        return {} if lease is None else {"l": lease}
    return {"l": lease.id, "f": (lease.token or "").partition(".")[0], "o": lease.owner}


def _id_in(envelope: bytes) -> str:
    """Return the id in an envelope, in a third of the time in which all of it is split."""
    _, _, length, rest = envelope.split(b" ", 3)
    start = int(length)
    return rest[start : rest.index(b" ", start)].decode()
