"""Publishes and stages messages in chunks, each stored whole or not at all; confirms writes for `durability`.

Several writers stage messages, which are invisible and expire; `publish_staged` makes all of them ready in one script,
or none. If its caller then dies, the next claim finishes the move: an unfinished commit is kept in the leases set
with a deadline.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from rmq_core.envelope import codec
from rmq_core.envelope.codec import ArrowData, Publishable, arrow_columns, chunks, new_id, new_ids, nonce
from rmq_core.envelope.payloads import compressed, digest, encode_headers, encode_payload, key_digest
from rmq_core.errors import (
    ConfigurationError,
    NotDurable,
    PayloadError,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
    ScriptFailed,
    StageLost,
    WrongKeyType,
)
from rmq_core.events import Operation
from rmq_core.exchange import Appended, Call, Chain, Exchange, Packed, Pipeline, Sleep
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.registry import register
from rmq_core.leased.config import DISCIPLINE, LeasedConfig
from rmq_core.leased.expiring import bury
from rmq_core.leased.publications import learn_groups, opened, require_groups
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import NewMessage, Stage
from rmq_core.policy import (
    EXPIRES_HEADER,
    GROUP_HEADER,
    PRIORITY_HEADER,
    PUBLICATION_HEADER,
    UNIQUE_HEADER,
    Overflow,
    checked_expiry,
    checked_group,
    checked_priority,
    delay_in_ms,
    milliseconds,
    whole,
)
from rmq_core.reports import Published, PublishReport


def confirming(engine: LeasedEngine, call: Call) -> Call:
    """Return the call followed by the command that confirms its writes; unchanged when `durability` is None."""
    durability = engine.config.durability
    return call if durability is None else call._replace(then=durability.command())


def apart(call: Call, reply: Any) -> tuple[Any, Any]:
    """Return the reply of a call and that of the command behind it, None without one."""
    return reply if call.then else (reply, None)


def check(engine: LeasedEngine, done: str, confirmed: Any) -> None:
    """Raise NotDurable when too few replicas or AOF files confirmed the writes; the writes are not undone."""
    durability = engine.config.durability
    if durability is None:
        return
    if isinstance(confirmed, Exception) or not durability.confirmed(confirmed):
        raise NotDurable(f"{done} in queue {engine.keys.name!r}, but {durability} was not confirmed: {confirmed}")


DedupKey: TypeAlias = str | bytes | Callable[[Any], str]
_CHUNK, _COLUMN, _CHUNK_BYTES, _WINDOW = 1000, 4000, 4 << 20, 4
_FEW = 50  # so few messages cost less in a script than in a transaction
_MANY = 500  # so many are worth a round trip for the server's time
_LATE = 4 * _WINDOW  # see ServerClock
_ID_LENGTH = 512
_PUBLISH = Operation.PUBLISH
_ID_ROOM = 64  # bound for a generated id plus envelope overhead


class Belonging(NamedTuple):
    """Where a message belongs, which it says in its headers; scripts read them there."""

    group: str | None = None
    priority: int | None = None
    publication: str | None = None
    expires: timedelta | float | datetime | None = None

    def written(self, engine: LeasedEngine, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """Return the headers of such a message; what they say themselves is replaced.

        Raises PayloadError for a name that no group or publication can have, and for a priority and a time that are
        none, in headers too; ConfigurationError for a publication, or `expires`, in a queue without groups.
        """
        known = headers or {}
        group = known.get(GROUP_HEADER) if self.group is None else self.group
        priority = known.get(PRIORITY_HEADER) if self.priority is None else self.priority
        publication = known.get(PUBLICATION_HEADER) if self.publication is None else self.publication
        expires = known.get(EXPIRES_HEADER) if self.expires is None else self.expires
        if group is None and priority is None and publication is None and expires is None:
            return headers
        own = dict(known)
        if group is not None:
            own[GROUP_HEADER] = checked_group(group)
        if priority is not None:
            own[PRIORITY_HEADER] = checked_priority(priority)
        if publication is not None:
            own[PUBLICATION_HEADER] = checked_group(publication, "publication")
            require_groups(engine, "publication")
        if expires is not None:
            own[EXPIRES_HEADER] = checked_expiry(expires)
        if self.expires is not None:
            require_groups(engine, "expires")
        return own


_NOWHERE = Belonging()


def _belonging(engine: LeasedEngine, to: Belonging, headers: Mapping[str, str] | None) -> Exchange[Any]:
    """Return the headers of messages that a call says to belong there."""
    if to.publication is not None or to.expires is not None:
        yield from learn_groups(engine)
    return to.written(engine, headers)


class Entry(NamedTuple):
    """A message to publish: id, encoded body, digest of its deduplication key."""

    id: str
    body: bytes
    digest: bytes | None
    delay_ms: int = 0

    def goes_with(self, other: Entry) -> bool:
        """Return whether one call can hold both."""
        return self.delay_ms == other.delay_ms and (self.digest is None) == (other.digest is None)


class ServerClock:
    """The server's time in ms from its last reply; 0 before the first.

    `publish_many` stamps the next chunk with it: stamping in Lua costs more than storing. appends: how many more chunks
    may be appended by a plain command, which needs such stamps, and then arrive too late for them; 0 if none is to be
    appended. Each of them is sent again, for a script, so a slow way to the server would double the traffic.
    """

    def __init__(self) -> None:
        self.ms = 0
        self.appends = 0

    @property
    def stamp(self) -> bytes:
        """The prefix of a new envelope: no deliveries, the time, no history."""
        return codec.stamp(self.ms) if self.ms else b""

    def take(self, reply: bytes) -> bytes:
        """Store the time in a reply; return what precedes it."""
        rest, _, now = reply.partition(b" @")
        self.ms = int(now.partition(b" ")[0] or self.ms)
        return rest


class Chunk(NamedTuple):
    """Messages for one call: all or none have a digest; all have the same delay.

    stamp_ms: the timestamp already in the bodies; 0 if the server must add it.
    """

    ids: Sequence[str]
    bodies: Sequence[bytes] | Packed
    digests: Sequence[bytes] = ()
    delay_ms: int = 0
    stamp_ms: int = 0

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Chunk:
        """Build a chunk from entries."""
        ids, bodies, digests, delays = zip(*entries, strict=True)
        return cls(ids, bodies, () if digests[0] is None else digests, delays[0])

    def stamped(self, clock: ServerClock) -> Chunk:
        """Return a copy with timestamped bodies; the same chunk if the time is unknown."""
        stamp = clock.stamp
        return self._replace(bodies=[stamp + body for body in self.bodies], stamp_ms=clock.ms) if stamp else self

    def appended_to(self, key: bytes, clock: ServerClock) -> Appended | None:
        """Return how RPUSH appends the chunk to a list; None if a script has to add it."""
        few = len(self.bodies) < _FEW
        if few or self.digests or self.delay_ms or not self.stamp_ms or clock.appends <= 0:
            return None
        return Appended(key, self.bodies)


Divide: TypeAlias = Callable[[Iterable[Entry]], Iterator[Chunk]]


def publish(
    engine: LeasedEngine,
    payload: Publishable,
    *,
    dedup_key: DedupKey | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
    group: str | None = None,
    priority: int | None = None,
    publication: str | None = None,
    expires: timedelta | float | datetime | None = None,
) -> Exchange[Published]:
    """Publish a message, unless one with its deduplication key was published within the window.

    delay: seconds or timedelta before it becomes ready. group, priority (0 to 9): where the queue has groups, see
    `policy.Groups`. publication: what it is a part of; `queue.publication` tells when all of that is done. expires: if
    nobody has claimed it by then, it becomes a dead letter; seconds or timedelta from now, or a datetime with a time
    zone; only in a queue with groups, else it raises ConfigurationError. These four are stored as headers. Raises
    PayloadError if unstorable, QueueFull if the queue is full, NotDurable if stored without the configured durability.
    """
    to = Belonging(group, priority, publication, expires)
    if headers is not None or to != _NOWHERE:  # else this costs nothing
        headers = yield from _belonging(engine, to, headers)
    entry = _entry(engine, payload, dedup_key, encode_headers(headers), delay_in_ms(delay))
    if not engine.registered:
        engine.registered = yield from register(engine.name, DISCIPLINE)
    digests = () if entry.digest is None else (entry.digest,)
    chunk = Chunk((entry.id,), (entry.body,), digests, entry.delay_ms)
    if engine.shards is not None:
        reply, confirmed = yield from engine.shards.stored(chunk)
    else:
        call = call_of(engine, chunk)
        reply, confirmed = apart(call, (yield call))
    if not reply.startswith(b"accepted"):
        reply, confirmed = yield from insist(engine, chunk, reply)
    _, dropped, *verdict = reply.split()
    accepted = verdict != [b"0"]
    replaced = len(verdict) > 1
    if accepted:
        engine.state(_PUBLISH, 1, message_id=entry.id, by=headers)
    else:
        engine.state(Operation.DUPLICATE)
    if dropped != b"0":
        engine.state(Operation.DROP, int(dropped))
    if replaced:
        _state_replaced(engine, verdict[2:], headers or {})
    check(engine, "published", confirmed)
    return Published(entry.id, accepted, replaced)


def publish_many(
    engine: LeasedEngine,
    payloads: Iterable[Publishable | NewMessage] | ArrowData,
    *,
    dedup_key: DedupKey | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
    group: str | None = None,
    priority: int | None = None,
    publication: str | None = None,
    expires: timedelta | float | datetime | None = None,
) -> Exchange[PublishReport]:
    """Publish messages in order, in chunks of up to 1,000 messages and 4 MiB, four chunks a write.

    Takes any iterable; a NewMessage's own fields override the arguments. Takes a column of texts or of bytes too, or a
    table whose only column is `payload`, of any library that exports Arrow data: pyarrow, Polars, DuckDB, pandas. This
    needs the extra `arrow`, else it raises ConfigurationError. Raises at the first refused chunk; the error's `report`
    counts what was accepted before. A `dedup_key` must be a callable here. A chunk ends where the delay changes. A
    `publication` has not ended before this call has, and exists without messages too.
    """
    headers = yield from _belonging(engine, Belonging(group, priority, publication, expires), headers)
    tally = Tally(engine, headers)
    try:
        chunks = yield from _encoding(engine, payloads, dedup_key, delay, headers, tally.clock)
        if not engine.registered:
            engine.registered = yield from register(engine.name, DISCIPLINE)
        first = list(itertools.islice(chunks, 2))
        sending = _send_all(engine, itertools.chain(first, chunks), tally)
        if publication is None:
            yield from sending
            return tally.report()
        if len(first) == 1 and engine.shards is None:  # its script counts all messages at once
            yield from sending
            if tally.accepted:
                return tally.report()
        yield from opened(engine, publication, sending)  # if all were duplicates, it exists without messages
    except RedisMessageQueueError as error:
        error.report = tally.report()
        raise
    return tally.report()


def _send_all(engine: LeasedEngine, chunks: Iterator[Chunk], tally: Tally) -> Exchange[None]:
    width = _WINDOW if engine.shards is None else max(_WINDOW, len(engine.shards.map.names))
    while window := list(itertools.islice(chunks, width)):
        yield from _send(engine, window, tally)


def _encoding(
    engine: LeasedEngine,
    payloads: Iterable[Publishable | NewMessage] | ArrowData,
    dedup_key: DedupKey | None,
    delay: timedelta | float | None,
    headers: Mapping[str, str] | None,
    clock: ServerClock,
    divide: Divide | None = None,
) -> Exchange[Iterator[Chunk]]:
    """Return an iterator that encodes messages into chunks, in order; `divide` splits mixed ones.

    Asks for the server's time, in a transaction, if there are many that RPUSH may append.
    """
    if dedup_key is not None and not callable(dedup_key):
        raise PayloadError(
            "dedup_key must be a callable for publish_many and stage: with one key, all but one are duplicates"
        )
    config, shared = engine.config, (encode_headers(headers), delay_in_ms(delay))
    bound = config.max_ready if engine.shards is None else engine.shards.bound
    pieces = _pieces(payloads, bound or _COLUMN)
    first = list(itertools.islice(pieces, 1))
    plain = dedup_key is None and delay is None and not deduplicates(engine) and config.overflow != Overflow.DROP_OLDEST
    if plain and first and len(first[0]) >= _MANY:
        with suppress(ScriptFailed):  # the user may use no transactions
            clock.take((yield script("leased/now", engine.keys)._replace(appended=Appended(engine.keys.ready))))
            clock.appends = _LATE
    return _chunks(engine, itertools.chain(first, pieces), dedup_key, shared, clock, divide or _divided)


def _pieces(payloads: Any, most: int) -> Iterator[Any]:
    """Return payloads in lists of at most `most` and a chunk, or in arrays of Arrow."""
    if any(hasattr(payloads, name) for name in ("__arrow_c_stream__", "__arrow_c_array__")):
        arrays: Iterator[Any] = arrow_columns().payloads_in(payloads, min(most, _COLUMN))
        return arrays
    rest = iter(payloads)
    return iter(lambda: list(itertools.islice(rest, min(most, _CHUNK))), [])


def _chunks(
    engine: LeasedEngine,
    pieces: Iterator[Any],
    dedup_key: DedupKey | None,
    shared: tuple[bytes, int],
    clock: ServerClock,
    divide: Divide,
) -> Iterator[Chunk]:
    config, (headers, delay_ms) = engine.config, shared
    unkeyed = dedup_key is None and config.dedup_key is None and not config.dedup and config.codec is None
    most = min(config.max_payload_bytes, config.compress_above or config.max_payload_bytes)
    first = 0
    for piece in pieces:
        column = _column(piece, headers, most, clock) if unkeyed and not delay_ms else None
        if column:
            yield column._replace(stamp_ms=clock.ms)
            first += len(piece)
            continue
        for some in _lists(piece):
            alike = _alike(some, headers, most, clock.stamp) if unkeyed else None
            if alike:
                yield alike._replace(delay_ms=delay_ms, stamp_ms=clock.ms)
            else:
                entries: list[Entry] = []
                try:  # inlined: `codec.each` is 1 % slower per message
                    entries.extend(_new_entry(engine, one, dedup_key, headers, delay_ms) for one in some)
                except PayloadError as error:
                    error.name_index(first + len(entries))
                    raise
                yield from (part.stamped(clock) for part in divide(entries))
            first += len(some)


def _lists(piece: Any) -> list[list[Any]]:
    """Return payloads in lists of at most a chunk; an array of Arrow may be longer."""
    if isinstance(piece, list):
        return [piece]
    return [piece[at : at + _CHUNK].to_pylist() for at in range(0, len(piece), _CHUNK)]


def _column(payloads: Any, headers: bytes, most: int, clock: ServerClock) -> Chunk | None:
    """Return a chunk of an array of Arrow that RPUSH can append; None if payloads are to be encoded in lists."""
    if isinstance(payloads, list) or clock.appends <= 0 or len(payloads) < _FEW:
        return None
    ids = new_ids(len(payloads))
    packed = arrow_columns().packed(payloads, ids, headers, clock.stamp, min(most, _CHUNK_BYTES))
    return None if packed is None or len(packed) > _CHUNK_BYTES else Chunk(ids, Packed(len(ids), packed))


def _alike(payloads: Sequence[Any], headers: bytes, most: int, stamp: bytes) -> Chunk | None:
    """Return a chunk if all payloads are str or all are bytes, else None; this fast path costs a quarter."""
    kinds = set(map(type, payloads))
    try:
        data = [text.encode() for text in payloads] if kinds == {str} else payloads
    except UnicodeEncodeError:
        return None
    if kinds not in ({str}, {bytes}) or max(map(len, data)) > most:
        return None
    if sum(map(len, data)) + len(data) * (len(headers) + _ID_ROOM) > _CHUNK_BYTES:
        return None
    ids = new_ids(len(data))
    return Chunk(ids, codec.bodies(ids, "s" if kinds == {str} else "b", data, headers, stamp))


def _divided(entries: Iterable[Entry]) -> Iterator[Chunk]:
    chunk: list[Entry] = []
    size = 0
    for entry in entries:
        if chunk and (size + len(entry.body) > _CHUNK_BYTES or not entry.goes_with(chunk[0])):
            yield Chunk.of(chunk)
            chunk, size = [], 0
        chunk.append(entry)
        size += len(entry.body)
    yield Chunk.of(chunk)


def _send(engine: LeasedEngine, window: list[Chunk], tally: Tally) -> Exchange[None]:
    if engine.shards is not None:
        yield from engine.shards.stored_many(window, tally)
        return
    calls = [append_or_call(engine, chunk, tally.clock) for chunk in window]
    chained = len(calls) > 1 and not engine.config.durability
    replies = (yield Chain(tuple(calls))) if chained else [b""] * len(calls)
    for call, chunk, answer in zip(calls, window, replies, strict=True):
        reply, confirmed = answer, None
        if isinstance(answer, WrongKeyType):  # the queue may have another layout, in which RPUSH appends nothing
            reply = b"stale" if call.appended else b""
        elif isinstance(answer, RedisMessageQueueError):
            raise answer
        chained = chained and reply.startswith(b"accepted")
        if not chained and not reply.startswith(b"stale"):  # the chain skipped every chunk after the first refused one
            reply, confirmed = apart(call, (yield call))
        if not reply.startswith(b"accepted"):
            again = call_of(engine, chunk)
            if call.appended:
                tally.clock.appends -= reply.startswith(b"stale")
                reply, confirmed = apart(again, (yield again))
            if not reply.startswith(b"accepted"):
                reply, confirmed = yield from insist(engine, chunk, reply)
        tally.add(chunk, reply)
        check(engine, "published", confirmed)


def insist(engine: LeasedEngine, chunk: Chunk, reply: bytes) -> Exchange[tuple[bytes, Any]]:
    """Publish a refused chunk again while the queue is full and `Overflow.BLOCK` allows; return the last reply."""
    pause, began, confirmed = 0.005, None, None
    while not reply.startswith(b"accepted"):
        if reply.startswith(b"moved"):  # the queue has shards since this client read its settings
            found: tuple[bytes, Any] = yield from engine.moved(chunk)
            return found
        if not reply.startswith(b"full"):
            raise ScriptFailed(f"publish got unexpected reply {reply.decode()!r}")
        now = int(reply.split()[1])
        began, overflow = now if began is None else began, engine.config.overflow  # it may be changed meanwhile
        if not (yield from _made_room(engine)):
            if overflow.kind != "block" or now - began >= overflow.timeout * 1000:
                most = engine.config.max_ready
                raise QueueFull(
                    f"queue {engine.keys.name!r} has no room: max_ready={most} messages may wait; claim some"
                )
            yield Sleep(pause)
            pause = min(2 * pause, 0.25)
        call = call_of(engine, chunk)
        reply, confirmed = apart(call, (yield call))
    return reply, confirmed


def _made_room(engine: LeasedEngine) -> Exchange[bool]:
    """Return whether messages left a full queue because they had expired."""
    return engine.config.groups is not None and bool((yield from bury(engine)))


def _state_replaced(engine: LeasedEngine, ids: Sequence[bytes], by: Mapping[str, str] | None = None) -> None:
    named = [each.decode() for each in ids]
    engine.state(Operation.REPLACE, len(ids), message_id=named[0] if len(ids) == 1 else None, ids=named, by=by)


class Tally:
    """The running totals for the PublishReport."""

    def __init__(self, engine: LeasedEngine, headers: Mapping[str, str] | None) -> None:
        self.engine, self.clock, self.headers = engine, ServerClock(), headers
        self.accepted = self.duplicates = self.dropped = self.replaced = 0
        self.ids: list[str | None] = []

    def add(self, chunk: Chunk, reply: bytes) -> None:
        parts, replaced = self.clock.take(reply).split(), reply.partition(b" @")[2].split()[1:]
        dropped = int(parts[1])
        if len(parts) > 2:
            flags = parts[2]
            self.ids += [None if flag == 48 else own for own, flag in zip(chunk.ids, flags, strict=True)]
            fresh = len(flags) - flags.count(b"0")
        else:
            self.ids += chunk.ids
            fresh = len(chunk.ids)
        self.accepted += fresh
        self.duplicates += len(chunk.ids) - fresh
        self.dropped += dropped
        self.replaced += len(replaced)
        one = self.ids[-1] if len(chunk.ids) == 1 else None
        ids = filter(None, self.ids[-len(chunk.ids) :])
        self.engine.state(_PUBLISH, fresh, message_id=one, ids=ids, by=self.headers)
        self.engine.state(Operation.DUPLICATE, len(chunk.ids) - fresh)
        self.engine.state(Operation.DROP, dropped)
        if replaced:
            _state_replaced(self.engine, replaced, self.headers or {})

    def skip(self, chunk: Chunk) -> None:
        """Note messages that were not stored, and are no duplicates, before others that are."""
        self.ids += [None] * len(chunk.ids)

    def report(self) -> PublishReport:
        return PublishReport(self.accepted, self.duplicates, self.dropped, tuple(self.ids), self.replaced)


def _new_entry(
    engine: LeasedEngine, message: Publishable | NewMessage, dedup_key: DedupKey | None, headers: bytes, delay_ms: int
) -> Entry:
    if not isinstance(message, NewMessage):
        return _entry(engine, message, dedup_key, headers, delay_ms)
    own_headers = headers
    belonging = Belonging(message.group, message.priority, message.publication, message.expires)
    if message.headers is not None or any(each is not None for each in belonging):
        own = message.headers if message.headers is not None else json.loads(headers or b"{}")
        own_headers = encode_headers(belonging.written(engine, own))
    own_delay_ms = delay_ms if message.delay is None else delay_in_ms(message.delay)
    key = dedup_key if message.dedup_key is None else message.dedup_key
    return _entry(engine, message.payload, key, own_headers, own_delay_ms, message.id)


def _entry(
    engine: LeasedEngine,
    payload: Publishable,
    dedup_key: DedupKey | None,
    headers: bytes,
    delay_ms: int,
    message_id: str | None = None,
) -> Entry:
    config, message_id = engine.config, new_id() if message_id is None else _checked_id(message_id)
    if config.codec is None:
        kind, data = encode_payload(payload, config)
    else:
        payload, kind, data = typed(config, payload)
    digest = digest_of(engine, dedup_key, payload, kind, data)
    if config.compress_above is not None and len(data) > config.compress_above:
        kind, data = compressed(kind, data)
    if digest is not None and config.dedup_until == "settled":
        named = json.loads(headers) if headers else {}
        headers, digest = encode_headers({**named, UNIQUE_HEADER: digest.hex()}), None
    return Entry(message_id, codec.body(message_id, kind, data, headers), digest, delay_ms)


def typed(config: LeasedConfig[Any], payload: Publishable) -> tuple[Any, str, bytes]:
    """Return a payload as its type has it, and as it is stored. Raises PayloadError."""
    value, written = (payload, payload) if config.codec is None else config.codec.write(payload)
    return (value, *encode_payload(written, config))


def deduplicates(engine: LeasedEngine) -> bool:
    """Return whether the queue deduplicates messages published without a key."""
    return engine.config.dedup or engine.config.dedup_key is not None


def digest_of(
    engine: LeasedEngine, dedup_key: DedupKey | None, payload: Publishable, kind: str, data: bytes
) -> bytes | None:
    """Return the digest of a message's deduplication key (the call's, else the queue's); None without a key."""
    key = engine.config.dedup_key if dedup_key is None else dedup_key
    if key is not None:
        return key_digest(key(payload) if callable(key) else key)
    return digest(kind, data) if engine.config.dedup else None


def _checked_id(message_id: str) -> str:
    """Validate a caller's id: it must not hold spaces, because they separate the fields of an envelope."""
    if not isinstance(message_id, str) or not 0 < len(message_id) <= _ID_LENGTH:
        raise PayloadError(f"id must be a text of 1 to {_ID_LENGTH} characters, not {message_id!r}")
    if not message_id.isprintable() or " " in message_id:
        raise PayloadError(f"id {message_id!r} must not hold spaces or control characters")
    return message_id


def call_of(engine: LeasedEngine, chunk: Chunk) -> Call:
    keys, digests = engine.keys, chunk.digests
    call = script(
        "leased/publish", keys, engine.settings, markers=[keys.dedup(digest) for digest in digests],
        delay_ms=chunk.delay_ms, nonce=int(nonce()[:13], 16) if digests else 0, count=len(chunk.ids),
        window_ms=engine.dedup_window_ms if digests else 0, stamp_ms=chunk.stamp_ms, messages=chunk.bodies,
    )  # fmt: skip
    return confirming(engine, call)


def append_or_call(engine: LeasedEngine, chunk: Chunk, clock: ServerClock) -> Call:
    """Return the call that appends the messages to ready by a plain command, or the one whose script adds them."""
    appended = None if engine.keys.layout == "grouped" else chunk.appended_to(engine.keys.ready, clock)
    if appended is None:
        return call_of(engine, chunk)
    call = script(
        "leased/accept", engine.keys, engine.settings, count=len(chunk.ids),
        stamp_ms=chunk.stamp_ms,
    )  # fmt: skip
    return confirming(engine, call._replace(appended=appended))


COMMIT = b"~+"
"""Prefix of commits of stages in the leases set; no caller can choose such a lease id."""
_STAGED_WINDOW, _MOVED, _KEYED = 4, 4000, 1000
PEACE_MS = 10_000  # after this long without progress, other clients finish a commit
_MONTH_S = 30 * 86400


def stage(
    engine: LeasedEngine,
    payloads: Iterable[Publishable | NewMessage] | ArrowData,
    *,
    dedup_key: Callable[[Any], str] | None = None,
    headers: Mapping[str, str] | None = None,
    group: str | None = None,
    priority: int | None = None,
    publication: str | None = None,
    expires: timedelta | float | datetime | None = None,
    keep: timedelta | float = 86400,
) -> Exchange[Stage]:
    """Stage messages, in order, for `publish_staged`; they stay invisible and are not yet deduplicated.

    payloads: as in `publish_many`. keep: seconds or timedelta until an idle stage expires. The age of messages, and the
    time after which they expire, count from staging, not from the commit, as in Kafka. Messages of a `publication`
    count from when they are published. Raises PayloadError if one is unstorable, QueueFull at the server's `maxmemory`,
    StageLost if the stage expired.
    """
    headers = yield from _belonging(engine, Belonging(group, priority, publication, expires), headers)
    if engine.config.overflow == Overflow.DROP_OLDEST:
        raise ConfigurationError("overflow DROP_OLDEST cannot be combined with staging: use RAISE or BLOCK")
    stage_id, keep_ms = new_id(), milliseconds("keep", keep, minimum=0.001)
    clock, count, plain = ServerClock(), 0, True
    parts = yield from _encoding(engine, payloads, dedup_key, None, headers, clock, _set_aside)
    try:
        while window := list(itertools.islice(parts, _STAGED_WINDOW)):
            plain = plain and not any(chunk.digests or chunk.delay_ms for chunk in window)
            count += yield from _push(engine, Stage(stage_id, count, plain), window, clock, keep_ms)
    except Exception as error:
        if not isinstance(error, QueueUnavailable):  # else the stage expires
            yield from drop_staged(engine, [Stage(stage_id, count, plain)])
        raise
    return Stage(stage_id, count, plain)


def publish_staged(
    engine: LeasedEngine,
    stages: Sequence[Stage],
    *,
    sink: str | None = None,
    batch: int = 0,
    remember: timedelta | float = _MONTH_S,
) -> Exchange[bool]:
    """Make all messages of these stages ready, in order. Drop them and return False if the batch was published before.

    sink, batch: publish only if `batch` exceeds the last number of this `sink`, which is kept for `remember` (seconds
    or timedelta); so a failed call can be retried. Raises StageLost if a stage is incomplete, QueueFull if the queue is
    full; neither publishes anything. After the commit the call succeeds; if Redis then fails, the next claim makes the
    messages ready.
    """
    full = [each for each in stages if each.count]
    commit_id = new_id()
    if not engine.registered:
        engine.registered = yield from register(engine.name, DISCIPLINE)
    keep_ms = milliseconds("remember", remember, minimum=0.001)
    commit = partial(_commit, engine, commit_id, full, (sink, batch), keep_ms)
    if not (yield from _committed(engine, commit, sum(each.count for each in full))):
        yield from drop_staged(engine, full)
        return False
    if full:
        with suppress(QueueUnavailable):
            yield from finish(engine, COMMIT.decode() + commit_id)
    return True


def drop_staged(engine: LeasedEngine, stages: Iterable[Stage]) -> Exchange[None]:
    """Delete staged messages that are not published."""
    gone = iter(stages)
    while some := list(itertools.islice(gone, 100)):
        calls = [script("leased/drop_stage", stage=engine.keys.stage(each.id)) for each in some]
        for reply in (yield Pipeline(tuple(calls))):
            if isinstance(reply, Exception):
                raise reply


def finish(engine: LeasedEngine, member: str) -> Exchange[int]:
    """Move a commit's remaining messages to ready, in batches; return how many."""
    record, total = engine.keys.staged(member.removeprefix(COMMIT.decode())), 0
    while True:
        listed = yield script("leased/scan", key=record, first=0, last=99)
        for element in listed or [b""]:
            total += yield from _empty(engine, member, record, element)
        if not listed:
            return total


def _push(
    engine: LeasedEngine, so_far: Stage, window: Sequence[Chunk], clock: ServerClock, keep_ms: int
) -> Exchange[int]:
    """Append chunks to the stage; return the number of messages."""
    key, held, calls, scripts = engine.keys.stage(so_far.id), so_far.count, [], []
    for chunk in window:
        given = {"stage": key, "count": held, "keep_ms": keep_ms, "stamp_ms": chunk.stamp_ms}
        scripts.append(partial(script, "leased/stage", **given, messages=chunk.bodies))
        appended = chunk.appended_to(key, clock)
        accept = partial(script, "leased/accept_staged", **given, added=len(chunk.ids))
        calls.append(accept()._replace(appended=appended) if appended else scripts[-1]())
        held += len(chunk.ids)
    replies = yield Pipeline(tuple(calls))
    for by_script, reply in zip(scripts, replies, strict=True):
        if isinstance(reply, Exception):
            raise reply
        # Resend a chunk that ran before its predecessor, which got NOSCRIPT, or whose stamps came late.
        if clock.take(reply) != b"staged":
            clock.appends -= 1
            if clock.take((yield by_script())) != b"staged":
                raise StageLost(so_far.id)
    return held - so_far.count


def _set_aside(entries: Iterable[Entry]) -> Iterator[Chunk]:
    """Yield chunks whose bodies contain delay and digest; a chunk's `delay_ms` and `digests` show if any has one."""
    for chunk in chunks(entries, lambda entry: len(entry.body)):
        digests = [entry.digest for entry in chunk if entry.digest]
        longest_ms = max(entry.delay_ms for entry in chunk)
        yield Chunk([entry.id for entry in chunk], [_staged(entry) for entry in chunk], digests, longest_ms)


def _staged(entry: Entry) -> bytes:
    """Return the body; if there is a delay or a digest, put a marker byte, the delay and the digest before it."""
    if entry.digest is None and not entry.delay_ms:
        return entry.body
    digest = entry.digest.hex() if entry.digest else "-"
    return b"\x01%d %b %b" % (entry.delay_ms, digest.encode(), entry.body)


def _commit(
    engine: LeasedEngine, commit_id: str, stages: Sequence[Stage], fence: tuple[str | None, int], remember_ms: int
) -> Call:
    keys, (sink, batch) = engine.keys, fence
    named = "" if sink is None else check_name("sink", sink)
    number = "" if sink is None else whole("batch", batch)
    call = script(
        "leased/publish_staged", keys, engine.settings, staged=keys.staged(commit_id), sink=keys.sink(named),
        stages=[keys.stage(each.id) for each in stages], commit=COMMIT + commit_id.encode(), batch=number,
        remembered_ms=remember_ms, peace_ms=PEACE_MS,
        elements=[f"{each.count} {each.plain:d} {each.id}" for each in stages],
    )  # fmt: skip
    return confirming(engine, call)


def _committed(engine: LeasedEngine, commit: Callable[[], Call], total: int) -> Exchange[bool]:
    """Commit; retry while the queue is full, if `Overflow.BLOCK` allows. Return False if published before.

    total: how many messages are staged; no wait makes room for more than `max_ready`.
    """
    pause, began = 0.005, None
    while True:
        call = commit()
        reply, confirmed = apart(call, (yield call))
        verdict, _, rest = reply.decode().partition(" ")
        if verdict in {"committed", "before"}:
            check(engine, "published", confirmed)
            return bool(verdict == "committed")
        if verdict == "gone":
            raise StageLost(rest)
        if verdict != "full":
            raise ScriptFailed(f"publish_staged got unexpected reply {reply.decode()!r}")
        if (yield from _made_room(engine)):
            continue
        began = int(rest) if began is None else began
        overflow, most = engine.config.overflow, engine.settings.max_ready  # they may be changed meanwhile
        if total > most or overflow.kind != "block" or int(rest) - began >= overflow.timeout * 1000:
            remedy = "publish fewer at once or raise max_ready" if total > most else "claim some"
            raise QueueFull(f"queue {engine.name!r} cannot hold {total} staged messages: max_ready={most}; {remedy}")
        yield Sleep(pause)
        pause = min(2 * pause, 0.25)


def _empty(engine: LeasedEngine, member: str, record: bytes, element: bytes) -> Exchange[int]:
    """Move one stage of a commit to ready, unless another client does."""
    plain, _, stage_id = element.decode().partition(" ")[2].partition(" ")
    total = 0
    while True:
        left, digests = "", []
        if plain == "0":
            left, digests = yield script("leased/staged", stage=engine.keys.stage(stage_id), most=_KEYED)
        reply = yield _move(engine, (member, record, element), stage_id, left, digests)
        words = reply.decode().split(" ")
        if words[0] != "moved":
            return total
        engine.state(Operation.PUBLISH, int(words[1]))
        engine.state(Operation.DUPLICATE, int(words[2]))
        _state_replaced(engine, reply.split()[4:])
        total += int(words[1])
        if words[3] == "0":
            return total


def _move(
    engine: LeasedEngine, where: tuple[str, bytes, bytes], stage_id: str, left: int | str, digests: Sequence[bytes]
) -> Call:
    keys, (member, record, element) = engine.keys, where
    return script(
        "leased/unstage", keys, engine.settings, staged=record, stage=keys.stage(stage_id),
        markers=[keys.dedup(bytes.fromhex(digest.decode())) for digest in digests if digest != b"-"],
        commit=member, element=element, peace_ms=PEACE_MS, nonce=int(nonce()[:13], 16),
        window_ms=engine.dedup_window_ms, count=left, most=len(digests) or _MOVED,
    )  # fmt: skip
