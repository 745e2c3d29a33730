"""Publishing: chunks go out whole or not at all, several in one write."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from rmq_core import codec
from rmq_core.errors import PayloadError, QueueFull, RedisMessageQueueError, ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Call, Chain, Command, Encodable, Exchange, Sleep
from rmq_core.ids import new_id
from rmq_core.keys import QUEUES
from rmq_core.leased.engine import Engine
from rmq_core.leased.operations.durability import apart, check, confirmation
from rmq_core.lua import load
from rmq_core.messages import Payload, Published, PublishReport
from rmq_core.policy import Overflow, milliseconds

DedupKey: TypeAlias = str | bytes | Callable[[Any], str]
_CHUNK, _CHUNK_BYTES, _WINDOW = 1000, 4 << 20, 4


class Entry(NamedTuple):
    """A message on its way: its id, its body, the digest of its deduplication key."""

    id: str
    body: bytes
    digest: bytes | None


def publish(
    engine: Engine,
    payload: Payload,
    *,
    dedup_key: DedupKey | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Exchange[Published]:
    """Add a message; with deduplication, only when its key was not published within the window.

    delay: seconds or timedelta before it becomes ready. Raises PayloadError for what cannot be stored, QueueFull when
    there is no room, NotDurable when it is stored but not as safely as configured.
    """
    entry = _entry(engine, payload, dedup_key, codec.encode_headers(headers))
    if not engine.registered:
        yield from register(engine)
    call = _call(engine, [entry], _delay_ms(delay))
    verdict = _Tally(engine)
    yield from _insist(engine, call, [entry], verdict)
    return Published(entry.id, bool(verdict.accepted))


def publish_many(
    engine: Engine,
    payloads: Iterable[Payload],
    *,
    dedup_key: DedupKey | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Exchange[PublishReport]:
    """Add many messages, in order, in chunks of up to 1,000 messages and 4 MiB, several chunks in one write.

    Takes any iterable, of any length. Stops at the first chunk that is refused and raises; `report` of the
    error holds what was accepted before it. A `dedup_key` must be a callable here.
    """
    if dedup_key is not None and not callable(dedup_key):
        raise PayloadError("dedup_key must be a callable for publish_many: one key would make all but one a duplicate")
    extra, delay_ms, tally = codec.encode_headers(headers), _delay_ms(delay), _Tally(engine)
    if not engine.registered:
        yield from register(engine)
    chunks = _chunks((_entry(engine, payload, dedup_key, extra) for payload in payloads), engine.config.max_ready)
    try:
        while window := list(itertools.islice(chunks, _WINDOW)):
            yield from _send(engine, window, delay_ms, tally)
    except RedisMessageQueueError as error:
        error.report = tally.report()
        raise
    return tally.report()


def register(engine: Engine) -> Exchange[None]:
    """Write the queue's name where tools look for it."""
    try:
        yield Command(("SADD", QUEUES, engine.keys.name))
        engine.registered = True
    except QueueFull:  # a full server must not keep consumers from draining it; the next call tries again
        engine.registered = False


def _send(engine: Engine, window: list[list[Entry]], delay_ms: int, tally: _Tally) -> Exchange[None]:
    calls = [_call(engine, chunk, delay_ms) for chunk in window]
    if len(calls) == 1 or engine.config.durability:
        for call, chunk in zip(calls, window, strict=True):
            yield from _insist(engine, call, chunk, tally)
        return
    replies = yield Chain(tuple(calls))
    refused = False
    for call, chunk, reply in zip(calls, window, replies, strict=True):
        if isinstance(reply, RedisMessageQueueError):
            raise reply
        refused = refused or not reply.startswith(b"accepted")
        if refused:  # everything after the first refused chunk was held back by the chain
            yield from _insist(engine, call, chunk, tally)
        else:
            tally.add(chunk, reply)


def _insist(engine: Engine, call: Call, chunk: list[Entry], tally: _Tally) -> Exchange[None]:
    """Send one chunk, again while the queue is full and `Overflow.BLOCK` allows."""
    overflow, pause, began = engine.config.overflow, 0.005, None
    while True:
        reply = yield call
        reply, confirmed = apart(call, reply)
        if reply.startswith(b"accepted"):
            tally.add(chunk, reply)
            return check(engine, "published", confirmed)
        if not reply.startswith(b"full"):
            raise ScriptFailed(f"publish got {reply.decode()!r}")
        now = int(reply.split()[1])
        began = now if began is None else began
        if overflow.kind != "block" or now - began >= overflow.timeout * 1000:
            most = engine.config.max_ready
            raise QueueFull(f"queue {engine.keys.name!r} has no room: max_ready={most} messages wait; claim some")
        yield Sleep(pause)
        pause = min(2 * pause, 0.25)


class _Tally:
    """Counts what became of the chunks so far."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.accepted = self.duplicates = self.dropped = 0
        self.ids: list[str | None] = []

    def add(self, chunk: list[Entry], reply: bytes) -> None:
        parts = reply.split()
        dropped = int(parts[1])
        if len(parts) > 2:
            flags = parts[2]
            self.ids += [entry.id if flag == 49 else None for entry, flag in zip(chunk, flags, strict=True)]
            fresh = flags.count(b"1")
        else:
            self.ids += [entry.id for entry in chunk]
            fresh = len(chunk)
        self.accepted += fresh
        self.duplicates += len(chunk) - fresh
        self.dropped += dropped
        if self.engine.on_event:
            one = self.ids[-1] if len(chunk) == 1 else None
            self.engine.tell(Operation.PUBLISH, fresh, message_id=one)
            self.engine.tell(Operation.DUPLICATE, len(chunk) - fresh)
            self.engine.tell(Operation.DROP, dropped)

    def report(self) -> PublishReport:
        return PublishReport(self.accepted, self.duplicates, self.dropped, tuple(self.ids))


def _entry(engine: Engine, payload: Payload, dedup_key: DedupKey | None, headers: bytes) -> Entry:
    config, message_id = engine.config, new_id()
    kind, data = codec.encode_payload(payload, config.max_payload_bytes, config.max_payload_depth)
    key = config.dedup_key if dedup_key is None else dedup_key
    digest = None
    if key is not None:
        digest = codec.digest("key", key_bytes(key(payload) if callable(key) else key))
    elif config.dedup:
        digest = codec.digest(kind, data)
    return Entry(message_id, codec.body(message_id, kind, data, headers), digest)


def key_bytes(key: object) -> bytes:
    """The bytes that stand for a deduplication key; PayloadError when it is empty or no text."""
    data = codec.encode_text(key, "dedup_key") if isinstance(key, str) else key
    if not isinstance(data, bytes):
        raise PayloadError(f"dedup_key must be or return str or bytes, not {type(key).__name__}")
    if not data:
        raise PayloadError("dedup_key is empty: all messages with it would count as duplicates; leave it out")
    return data


def _delay_ms(delay: timedelta | float | None) -> int:
    return 0 if delay is None else milliseconds("delay", delay)


def _chunks(entries: Iterator[Entry], max_ready: int | None) -> Iterator[list[Entry]]:
    most = min(_CHUNK, max_ready or _CHUNK)
    chunk: list[Entry] = []
    size = 0
    for entry in entries:
        if chunk and (len(chunk) >= most or size + len(entry.body) > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += len(entry.body)
    if chunk:
        yield chunk


def _call(engine: Engine, chunk: list[Entry], delay_ms: int) -> Call:
    keys, config = engine.keys, engine.config
    digests = [entry.digest for entry in chunk if entry.digest is not None]
    window = milliseconds("dedup_window", config.dedup_window) if digests else 0
    drop = "1" if config.overflow == Overflow.DROP_OLDEST else "0"
    nonce = secrets.randbits(52) if digests else 0
    head: tuple[Encodable, ...] = (keys.bell, delay_ms, config.max_ready or 0, drop, nonce, window, len(chunk))
    return Call(
        load("leased/publish"),
        (keys.ready, keys.delayed, keys.waiters, keys.wake, keys.timer, *map(keys.dedup, digests)),
        (*head, *[entry.body for entry in chunk]),
        confirm=confirmation(engine),
    )
