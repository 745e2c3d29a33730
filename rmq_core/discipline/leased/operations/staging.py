"""Staged publishing: many hands put messages aside, one decides, and they become ready together or not at all.

What is staged is seen by nobody and expires. `publish_staged` writes down, in one script, which stages are published:
from then on they will become ready whatever happens, for a publication that its author left half done stands among
the leases, where every claim finds what is overdue.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from rmq_core.discipline.leased.config import DISCIPLINE
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.durability import apart, check, confirming
from rmq_core.discipline.leased.operations.publishing import Chunk, Entry, ServerClock, chunks_of
from rmq_core.envelope.chunks import chunks
from rmq_core.envelope.codec import Payload
from rmq_core.envelope.ids import new_id, nonce
from rmq_core.errors import ConfigurationError, QueueFull, QueueUnavailable, ScriptFailed, StageLost
from rmq_core.events import Operation
from rmq_core.exchange import Batch, Call, Exchange, Sleep
from rmq_core.exchange.scripts import script
from rmq_core.messages import NewMessage, Stage
from rmq_core.policy import Overflow, milliseconds, whole
from rmq_core.queue.keys import check_name
from rmq_core.queue.registry import register

PUBLICATION = b"~+"
"""How the members of the leases begin that are publications: no caller can choose such a lease id."""
_WINDOW, _MOVED, _KEYED = 4, 4000, 1000
_PEACE_MS = 10_000  # how long a silent author is left alone before others finish what it published
_MONTH_S = 30 * 86400


def stage(
    engine: LeasedEngine,
    payloads: Iterable[Payload | NewMessage],
    *,
    dedup_key: Callable[[Any], str] | None = None,
    headers: Mapping[str, str] | None = None,
    keep: timedelta | float = 86400,
) -> Exchange[Stage]:
    """Put messages aside for `publish_staged`, in order; nobody sees them, and nothing is deduplicated yet.

    keep: seconds or timedelta without another message or publication after which they are forgotten. Their age counts
    from here, as that of a Kafka record does from its send and not from the commit. Raises PayloadError for what cannot
    be stored, QueueFull at the server's `maxmemory`, StageLost when `keep` was too short.
    """
    if engine.config.overflow == Overflow.DROP_OLDEST:
        raise ConfigurationError("overflow DROP_OLDEST cannot be combined with staging: use RAISE or BLOCK")
    stage_id, keep_ms = new_id(), milliseconds("keep", keep, minimum=0.001)
    told, count, plain = ServerClock(), 0, True
    parts = chunks_of(engine, payloads, dedup_key, None, headers, told, _set_aside)
    try:
        while window := list(itertools.islice(parts, _WINDOW)):
            plain = plain and not any(chunk.digests or chunk.delay_ms for chunk in window)
            count += yield from _push(engine, Stage(stage_id, count, plain), window, told, keep_ms)
    except Exception as error:
        if not isinstance(error, QueueUnavailable):  # else it expires
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
    """Make the messages of all these stages ready, in order; False when that was done before, and they are dropped.

    sink, batch: this `sink` publishes a batch only when its number is higher than that of its last one; that number is
    remembered for `remember` (seconds or timedelta), so that a call that failed can be repeated. Raises StageLost when
    a stage is not whole and QueueFull when there is no room; nothing becomes ready then. Once it is decided, the call
    succeeds: while Redis is out of sight, the messages become ready a little later, by whoever claims.
    """
    full = [each for each in stages if each.count]
    publication = new_id()
    if not engine.registered:
        engine.registered = yield from register(engine.name, DISCIPLINE)
    call = _commit(engine, publication, full, (sink, batch), milliseconds("remember", remember, minimum=0.001))
    if not (yield from _committed(engine, call)):
        yield from drop_staged(engine, full)
        return False
    if full:
        with suppress(QueueUnavailable):
            yield from finish(engine, PUBLICATION.decode() + publication)
    return True


def drop_staged(engine: LeasedEngine, stages: Iterable[Stage]) -> Exchange[None]:
    """Forget staged messages; those that were published stay published."""
    gone = iter(stages)
    while some := list(itertools.islice(gone, 100)):
        calls = [script("leased/drop_stage", stage=engine.keys.stage(each.id)) for each in some]
        for reply in (yield Batch(tuple(calls))):
            if isinstance(reply, Exception):
                raise reply


def finish(engine: LeasedEngine, member: str) -> Exchange[int]:
    """Make ready what is left of a publication, several messages a call; how many were moved here."""
    record, total = engine.keys.staged(member.removeprefix(PUBLICATION.decode())), 0
    while True:
        listed = yield script("leased/scan", key=record, first=0, last=99)
        for element in listed or [b""]:
            total += yield from _empty(engine, member, record, element)
        if not listed:
            return total


def _push(
    engine: LeasedEngine, so_far: Stage, window: Sequence[Chunk], told: ServerClock, keep_ms: int
) -> Exchange[int]:
    """Add some chunks to what was staged so far; how many messages that were."""
    calls, added = [], 0
    for chunk in window:
        call = script(
            "leased/stage", stage=engine.keys.stage(so_far.id), count=so_far.count + added, keep_ms=keep_ms,
            told_ms=chunk.told_ms, messages=chunk.bodies,
        )  # fmt: skip
        calls.append(call)
        added += len(chunk.ids)
    replies = yield Batch(tuple(calls))
    for call, reply in zip(calls, replies, strict=True):
        if isinstance(reply, Exception):
            raise reply
        # One that overtook the chunk before it, whose script the server had yet to be told, is sent again.
        if told.take(reply) != b"staged" and told.take((yield call)) != b"staged":
            raise StageLost(so_far.id)
    return added


def _set_aside(entries: Iterable[Entry]) -> Iterator[Chunk]:
    """Chunks in which each message says its delay and digest by itself: those of the chunk tell only whether it has."""
    for chunk in chunks(entries, lambda entry: len(entry.body)):
        digests = [entry.digest for entry in chunk if entry.digest]
        longest_ms = max(entry.delay_ms for entry in chunk)
        yield Chunk([entry.id for entry in chunk], [_staged(entry) for entry in chunk], digests, longest_ms)


def _staged(entry: Entry) -> bytes:
    """The body, behind a byte that no body begins with, the delay and the digest when it has one of them."""
    if entry.digest is None and not entry.delay_ms:
        return entry.body
    digest = entry.digest.hex() if entry.digest else "-"
    return b"\x01%d %b %b" % (entry.delay_ms, digest.encode(), entry.body)


def _commit(
    engine: LeasedEngine, publication: str, stages: Sequence[Stage], fence: tuple[str | None, int], remember_ms: int
) -> Call:
    keys, (sink, batch) = engine.keys, fence
    named = "" if sink is None else check_name("sink", sink)
    number = "" if sink is None else whole("batch", batch)
    call = script(
        "leased/publish_staged", keys, staged=keys.staged(publication), sink=keys.sink(named),
        stages=[keys.stage(each.id) for each in stages], publication=PUBLICATION + publication.encode(), batch=number,
        remembered_ms=remember_ms, peace_ms=_PEACE_MS, max_ready=engine.config.max_ready or 0,
        elements=[f"{each.count} {each.plain:d} {each.id}" for each in stages],
    )  # fmt: skip
    return confirming(engine, call)


def _committed(engine: LeasedEngine, call: Call) -> Exchange[bool]:
    """Ask until there is room, as long as `Overflow.BLOCK` allows."""
    overflow, pause, began = engine.config.overflow, 0.005, None
    while True:
        reply, confirmed = apart(call, (yield call))
        verdict, _, rest = reply.decode().partition(" ")
        if verdict in {"committed", "before"}:
            check(engine, "published", confirmed)
            return bool(verdict == "committed")
        if verdict == "gone":
            raise StageLost(rest)
        if verdict != "full":
            raise ScriptFailed(f"publish_staged got {reply.decode()!r}")
        began = int(rest) if began is None else began
        if overflow.kind != "block" or int(rest) - began >= overflow.timeout * 1000:
            most = engine.config.max_ready
            raise QueueFull(f"queue {engine.keys.name!r} has no room for what is staged: max_ready={most}; claim some")
        yield Sleep(pause)
        pause = min(2 * pause, 0.25)


def _empty(engine: LeasedEngine, member: str, record: bytes, element: bytes) -> Exchange[int]:
    """Move the messages of the stage that an element of the record names, unless somebody else does."""
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
        engine.tell(Operation.PUBLISH, int(words[1]))
        engine.tell(Operation.DUPLICATE, int(words[2]))
        total += int(words[1])
        if words[3] == "0":
            return total


def _move(
    engine: LeasedEngine, where: tuple[str, bytes, bytes], stage_id: str, left: int | str, digests: Sequence[bytes]
) -> Call:
    keys, (member, record, element) = engine.keys, where
    return script(
        "leased/unstage", keys, staged=record, stage=keys.stage(stage_id),
        markers=[keys.dedup(bytes.fromhex(digest.decode())) for digest in digests if digest != b"-"],
        publication=member, element=element, bell=keys.bell, peace_ms=_PEACE_MS, nonce=int(nonce()[:13], 16),
        window_ms=engine.dedup_window_ms, count=left, most=len(digests) or _MOVED,
    )  # fmt: skip
