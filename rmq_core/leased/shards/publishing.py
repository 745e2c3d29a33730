"""Stores messages in shards: those with a deduplication key where the key leads to, others in each shard in turn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, TypeAlias, TypeVar
from zlib import crc32

from rmq_core.errors import NotDurable, RedisMessageQueueError, ScriptFailed
from rmq_core.exchange import Command, Exchange, Pipeline, Sleep
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settings import fresh
from rmq_core.leased import publishing
from rmq_core.leased.publishing import Chunk, ServerClock, Tally
from rmq_core.leased.shards.state import FIRST, Sharded, checked, sharded
from rmq_core.leased.state import LeasedEngine

_Got: TypeAlias = tuple[bytes, Any]
"""The reply of the script that stored messages, and the reply to WAIT or WAITAOF; None without `durability`."""
_G = TypeVar("_G", _Got, _Got | Exception)
_ATTEMPTS = 20
_NO_CLOCK = ServerClock()
_CALLED = b" !"
"""How the reply of publish.lua and accept.lua ends if consumers wait for messages of any shard."""
_MARGIN_MS = 600_000
"""How far the clocks of this machine and of the server may differ."""


def stored(engine: LeasedEngine, chunk: Chunk) -> Exchange[_Got]:
    """Store a chunk; return the reply, as that of one shard, and the confirmation of its writes.

    Raises QueueFull, and what a shard raises.
    """
    for attempt in range(_ATTEMPTS):
        shards = sharded(engine)
        if chunk.digests:
            if not shards.map.settled:  # shards that do not know it yet take keys from publishers of the former one
                yield from learn(engine)
            return (yield from _by_key(engine, shards, chunk))
        reply, confirmed = yield from _anywhere(shards, chunk)
        if not reply.startswith(b"moved"):
            return reply, confirmed
        yield Sleep(0.01 * attempt)
        yield from learn(engine)
    raise ScriptFailed(
        f"shards of queue {engine.name!r} know another map than its settings have, as after a fail-over that lost it:"
        f" store it again, queue.admin.configure(shards={len(shards.map.names)})"
    )


def stored_many(engine: LeasedEngine, chunks: Sequence[Chunk], tally: Tally) -> Exchange[None]:
    """Store chunks of one call; those without deduplication keys side by side, each in another shard.

    If one is refused, the others are stored nevertheless, and then its error is raised.
    """
    shards, failed = sharded(engine), None
    free = [at for at, chunk in enumerate(chunks) if not chunk.digests]
    names = dict(zip(free, cycle(shards.turn()), strict=False))
    found = yield from shards.across_many(
        {at: (name, _sent(shards.storing(name), chunks[at], tally.clock)) for at, name in names.items()}
    )
    heard = yield from _heard(shards, [(names[at], got) for at, got in found.items()])
    first_replies = dict(zip(found, heard, strict=True))
    for at, chunk in enumerate(chunks):
        got = first_replies.get(at, (b"", None))
        try:
            if isinstance(got, Exception):
                raise got
            reply, confirmed = got
            if not reply.startswith(b"accepted"):  # it was not tried, or refused
                tally.clock.appends -= reply.startswith(b"stale")
                reply, confirmed = yield from stored(engine, chunk)
        except RedisMessageQueueError as error:
            failed = failed or error
            tally.skip(chunk)
            continue
        tally.add(chunk, reply)
        try:
            publishing.check(engine, "published", confirmed)
        except NotDurable as error:
            failed = failed or error
    if failed:
        raise failed


def _anywhere(shards: Sharded, chunk: Chunk) -> Exchange[_Got]:
    for name in shards.turn():
        got = yield from shards.at(name, _sent(shards.storing(name), chunk))
        ((reply, confirmed),) = yield from _heard(shards, [(name, got)])
        if not reply.startswith(b"full"):
            break
    if not reply.startswith(b"full"):
        return reply, confirmed
    return (yield from _insisting(shards, name, chunk, reply))


def _by_key(engine: LeasedEngine, shards: Sharded, chunk: Chunk) -> Exchange[_Got]:
    """Store messages where their keys lead to."""
    known = yield from _known_before(shards, chunk)
    verdicts, dropped, stamp, confirmed = [b"0"] * len(chunk.ids), 0, b"", None
    todo: dict[str, list[int]] = {}
    for place, digest in enumerate(chunk.digests):
        if place not in known:
            todo.setdefault(home_of(digest, shards.map.names), []).append(place)
    parts = {name: _only(chunk, places) for name, places in todo.items()}
    for name, got in zip(parts, (yield from _stored_in(shards, parts)), strict=True):
        reply, confirmed = got
        if reply.startswith(b"moved"):
            yield from learn(engine)
            reply, confirmed = yield from stored(engine, parts[name])
        elif not reply.startswith(b"accepted"):
            reply, confirmed = yield from _insisting(shards, name, parts[name], reply)
        publishing.check(engine, "published", confirmed)
        head, at_sign, now = reply.partition(b" @")
        stamp = at_sign + now or stamp
        words = head.split()
        dropped += int(words[1])
        for place, verdict in zip(todo[name], words[2], strict=True):
            verdicts[place] = b"%c" % verdict
    return b"accepted %d %b%b" % (dropped, b"".join(verdicts), stamp), confirmed


def _known_before(shards: Sharded, chunk: Chunk) -> Exchange[set[int]]:
    """Return the places of the messages whose keys were published under an earlier map, in another shard."""
    now_ms, known = time.time() * 1000, set[int]()
    for until, names in shards.map.former:
        asked: dict[str, list[int]] = {}
        for place, digest in enumerate(chunk.digests):
            before = home_of(digest, names)
            if until + _MARGIN_MS > now_ms and before in shards.engines and before != home_of(digest, shards.map.names):
                asked.setdefault(before, []).append(place)

        def look(name: str, other: LeasedEngine, asked: dict[str, list[int]] = asked) -> Exchange[list[Any]]:
            keys = [other.keys.dedup(chunk.digests[place]) for place in asked[name]]
            taken: list[Any] = yield Pipeline(tuple(Command(("EXISTS", key)) for key in keys))
            return taken

        for name, taken in (yield from shards.across(asked, look)).items():
            if isinstance(taken, Exception):
                raise taken
            for place, is_taken in zip(asked[name], taken, strict=True):
                if isinstance(is_taken, Exception):
                    raise is_taken
                if is_taken:
                    known.add(place)
    return known


def home_of(digest: bytes, names: Sequence[str]) -> str:
    """Return the shard of a deduplication key."""
    return names[crc32(digest) % len(names)]


def _only(chunk: Chunk, places: Sequence[int]) -> Chunk:
    if len(places) == len(chunk.ids):
        return chunk
    bodies: Sequence[bytes] = list(chunk.bodies)
    return chunk._replace(
        ids=[chunk.ids[place] for place in places], bodies=[bodies[place] for place in places],
        digests=[chunk.digests[place] for place in places],
    )  # fmt: skip


def _stored_in(shards: Sharded, parts: Mapping[str, Chunk]) -> Exchange[list[_Got]]:
    """Try once to store a chunk in each of these shards."""
    found = yield from shards.across(parts, lambda name, _: _sent(shards.storing(name), parts[name]))
    heard = yield from _heard(shards, list(found.items()))
    return list(checked(dict(zip(found, heard, strict=True))).values())


def _insisting(shards: Sharded, name: str, chunk: Chunk, reply: bytes) -> Exchange[_Got]:
    """Store a refused chunk in its shard, as soon as there is room."""
    got = yield from shards.at(name, publishing.insist(shards.storing(name), chunk, reply))
    return (yield from _heard(shards, [(name, got)]))[0]


def _sent(engine: LeasedEngine, chunk: Chunk, clock: ServerClock = _NO_CLOCK) -> Exchange[_Got]:
    call = publishing.append_or_call(engine, chunk, clock)
    got: _Got = publishing.apart(call, (yield call))
    return got


def _heard(shards: Sharded, found: Sequence[tuple[str, _G]]) -> Exchange[list[_G]]:
    """Wake a consumer for each shard whose reply says that some wait; return the results without that mark."""
    heard, calling = list[Any](), set[str]()
    for name, got in found:
        if not isinstance(got, Exception) and got[0].endswith(_CALLED):
            calling.add(name)
            heard.append((got[0].removesuffix(_CALLED), got[1]))
        else:
            heard.append(got)
    for name in calling:
        yield from knock(shards, name)
    return heard


def knock(shards: Sharded, name: str) -> Exchange[None]:
    """Wake one of the consumers that wait at the first shard, because this shard has messages.

    If the first shard does not answer, nobody is woken: consumers that wait look into all shards every few seconds.
    """
    yield from shards.across((FIRST,), lambda _, one: _knocked(one, name), hurry=True)


def _knocked(first: LeasedEngine, name: str) -> Exchange[None]:
    yield script("leased/knock", first.keys, shard=name)


def learn(engine: LeasedEngine) -> Exchange[None]:
    """Read the map again, because a shard knows a newer one; finish the change if it has not ended."""
    from rmq_core.leased.shards.resharding import finish  # its module imports this one

    engine.look_at = 0.0
    yield from fresh(engine)
    yield from finish(engine)
