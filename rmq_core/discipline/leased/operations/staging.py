"""Staged publishing: several writers stage messages; one commit makes all of them ready, or none.

Staged messages are invisible and expire. `publish_staged` commits in one script. If the committer then dies, the next
claim finishes the move: an unfinished publication is kept in the leases set with a deadline.
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
from rmq_core.exchange import Call, Exchange, Pipeline, Sleep
from rmq_core.exchange.scripts import script
from rmq_core.messages import NewMessage, Stage
from rmq_core.policy import Overflow, milliseconds, whole
from rmq_core.queue.keys import check_name
from rmq_core.queue.registry import register

PUBLICATION = b"~+"
"""Prefix of publications in the leases set; no caller can choose such a lease id."""
_WINDOW, _MOVED, _KEYED = 4, 4000, 1000
_PEACE_MS = 10_000  # after this long without progress, other clients finish a publication
_MONTH_S = 30 * 86400


def stage(
    engine: LeasedEngine,
    payloads: Iterable[Payload | NewMessage],
    *,
    dedup_key: Callable[[Any], str] | None = None,
    headers: Mapping[str, str] | None = None,
    keep: timedelta | float = 86400,
) -> Exchange[Stage]:
    """Stage messages, in order, for `publish_staged`; they stay invisible and are not yet deduplicated.

    keep: seconds or timedelta until an idle stage expires. The age of messages counts from staging, not from the
    commit, as in Kafka. Raises PayloadError if one is unstorable, QueueFull at the server's `maxmemory`, StageLost if
    the stage expired.
    """
    if engine.config.overflow == Overflow.DROP_OLDEST:
        raise ConfigurationError("overflow DROP_OLDEST cannot be combined with staging: use RAISE or BLOCK")
    stage_id, keep_ms = new_id(), milliseconds("keep", keep, minimum=0.001)
    clock, count, plain = ServerClock(), 0, True
    parts = chunks_of(engine, payloads, dedup_key, None, headers, clock, _set_aside)
    try:
        while window := list(itertools.islice(parts, _WINDOW)):
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
    """Delete staged messages that are not published."""
    gone = iter(stages)
    while some := list(itertools.islice(gone, 100)):
        calls = [script("leased/drop_stage", stage=engine.keys.stage(each.id)) for each in some]
        for reply in (yield Pipeline(tuple(calls))):
            if isinstance(reply, Exception):
                raise reply


def finish(engine: LeasedEngine, member: str) -> Exchange[int]:
    """Move a publication's remaining messages to ready, in batches; return how many."""
    record, total = engine.keys.staged(member.removeprefix(PUBLICATION.decode())), 0
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
    calls, added = [], 0
    for chunk in window:
        call = script(
            "leased/stage", stage=engine.keys.stage(so_far.id), count=so_far.count + added, keep_ms=keep_ms,
            stamp_ms=chunk.stamp_ms, messages=chunk.bodies,
        )  # fmt: skip
        calls.append(call)
        added += len(chunk.ids)
    replies = yield Pipeline(tuple(calls))
    for call, reply in zip(calls, replies, strict=True):
        if isinstance(reply, Exception):
            raise reply
        # Resend a chunk that ran before its predecessor, which got NOSCRIPT.
        if clock.take(reply) != b"staged" and clock.take((yield call)) != b"staged":
            raise StageLost(so_far.id)
    return added


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
    engine: LeasedEngine, publication: str, stages: Sequence[Stage], fence: tuple[str | None, int], remember_ms: int
) -> Call:
    keys, (sink, batch) = engine.keys, fence
    named = "" if sink is None else check_name("sink", sink)
    number = "" if sink is None else whole("batch", batch)
    call = script(
        "leased/publish_staged", keys, engine.settings, staged=keys.staged(publication), sink=keys.sink(named),
        stages=[keys.stage(each.id) for each in stages], publication=PUBLICATION + publication.encode(), batch=number,
        remembered_ms=remember_ms, peace_ms=_PEACE_MS,
        elements=[f"{each.count} {each.plain:d} {each.id}" for each in stages],
    )  # fmt: skip
    return confirming(engine, call)


def _committed(engine: LeasedEngine, call: Call) -> Exchange[bool]:
    """Commit; retry while the queue is full, if `Overflow.BLOCK` allows. Return False if published before."""
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
            raise ScriptFailed(f"publish_staged got unexpected reply {reply.decode()!r}")
        began = int(rest) if began is None else began
        if overflow.kind != "block" or int(rest) - began >= overflow.timeout * 1000:
            most = engine.config.max_ready
            raise QueueFull(f"queue {engine.keys.name!r} cannot hold all staged messages: max_ready={most}; claim some")
        yield Sleep(pause)
        pause = min(2 * pause, 0.25)


def _empty(engine: LeasedEngine, member: str, record: bytes, element: bytes) -> Exchange[int]:
    """Move one stage of a publication to ready, unless another client does."""
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
