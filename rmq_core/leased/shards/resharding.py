"""Changes in how many shards a queue is stored.

The map is one of the queue's settings, so every client knows it and follows a change. A change is stored first; then
each shard learns its epoch; then the change is stored as complete. Whoever needs the map meanwhile goes on with that,
so nothing waits for a client that died.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from rmq_core.errors import ConfigurationError, ScriptFailed
from rmq_core.exchange import Command, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.registry import ready
from rmq_core.leased.config import DISCIPLINE
from rmq_core.leased.inspecting import count_call, server_time
from rmq_core.leased.shards.state import FIRST, SLOTS, Sharded, checked, sharded, slot_of
from rmq_core.leased.state import LeasedEngine
from rmq_core.policy import Shards, of_text

_FORMAT, _TRIES = 3, 2000


def reshard(engine: LeasedEngine, before: dict[str, Any], after: dict[str, Any]) -> Exchange[None]:
    """Store the messages of a queue in so many shards as `after` says, and put the new map there.

    Publishers and consumers may work meanwhile. Shards that get no more messages stay until their last one is gone.
    """
    known = of_text(before.get("shards"))
    wanted = of_text(after.get("shards"))
    if wanted is None:
        raise ConfigurationError("shards cannot be reset: a queue that has shards keeps one, configure(shards=1)")
    count = wanted if isinstance(wanted, int) else len(wanted.names)
    yield from ready(engine, DISCIPLINE)
    if known is not None and known.leaving:
        after["shards"] = before["shards"]
        yield from _replaced(engine, known, replace(known, leaving=False))
        return  # the caller finds other settings, and calls again
    if known is not None and len(known.names) == count:
        yield from _stamped(engine, known)
        done = yield from _drained(engine, known)
        after["shards"] = str(done)
        return
    now_ms = int((yield from server_time(engine)).timestamp() * 1000)
    new = changed(engine.name, known, count, now_ms, engine.dedup_window_ms)
    kept = {name: value for name, value in before.items() if name in after}
    yield from _exchange(engine, before, {**kept, "shards": str(new)})
    engine.take((yield Command(engine.look)))  # else the config that the shards get may still have groups


def changed(queue: str, known: Shards | None, count: int, now_ms: int, window_ms: int) -> Shards:
    """Return the map of a queue with another number of shards, before the shards know it."""
    present = (FIRST,) if known is None else known.names
    names = spread(queue, count, present, () if known is None else known.draining)
    draining = () if known is None else tuple(name for name in known.all if name not in names)
    former = () if known is None else tuple(each for each in known.former if each[0] > now_ms)
    former = (*former, (now_ms + window_ms, present))
    return Shards(1 if known is None else known.epoch + 1, names, draining, former, settled=False)


def finish(engine: LeasedEngine) -> Exchange[None]:
    """Complete a change that somebody else has begun."""
    while engine.shards is not None and not engine.shards.map.settled:
        known = engine.shards.map
        if known.leaving:  # from this map on, no shard may accept messages
            after = replace(known, leaving=False)
        else:
            yield from _stamped(engine, known)
            after = _settled(known)
        yield from _replaced(engine, known, after)


def leave(engine: LeasedEngine) -> Exchange[bytes]:
    """Store in the map that the queue is to be forgotten; return all settings as they are stored then."""
    while True:
        yield from finish(engine)
        known = sharded(engine).map
        leaving = replace(known, settled=False, leaving=True)
        if (text := (yield from _replaced(engine, known, leaving))) is not None:
            return text.encode()


def _replaced(engine: LeasedEngine, known: Shards, after: Shards) -> Exchange[str | None]:
    """Store another map in the place of a known one, and read it; return the settings, None if others were stored."""
    stored = json.loads((yield Command(engine.look)) or "{}")
    done = stored.get("shards") == str(known)
    settings = {**stored, "shards": str(after)}
    if done:
        done = yield from _exchange(engine, stored, settings)
    engine.take((yield Command(engine.look)))
    return _text(settings) if done else None


def _settled(known: Shards) -> Shards:
    return Shards(known.epoch, known.names, known.draining, known.former)


def _exchange(engine: LeasedEngine, before: dict[str, Any], after: dict[str, Any]) -> Exchange[bool]:
    """Store settings if nobody has changed them; return whether."""
    reply = yield script("kernel/configure", engine.keys, before=_text(before), after=_text(after))
    return bool(reply == b"stored")


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, separators=(",", ":")) if settings else ""


def _stamped(engine: LeasedEngine, known: Shards) -> Exchange[None]:
    """Let all shards know a map."""
    shards = _beside(engine, known)
    checked((yield from shards.across(known.all, lambda name, one: _stamp(name, one, known.epoch))))


def _beside(engine: LeasedEngine, known: Shards) -> Sharded:
    """Return the shards of a map that the engine itself does not follow yet, and may never if the change fails."""
    one = copy(engine)
    one.keys = copy(engine.keys)
    shards = Sharded(one)
    shards.use(known)
    return shards


def _stamp(name: str, engine: LeasedEngine, epoch: int) -> Exchange[None]:
    keys, given = engine.keys, dict[str, Any]()
    if name == FIRST:
        given = {"line": keys.line, "format": keys.format, "format_text": f"{_FORMAT} {version('rmq')}"}
    reply = yield script("leased/stamp", keys, new_epoch=epoch, **given)
    if reply == b"grouped":
        raise ConfigurationError("shards cannot be combined with groups: reset the groups first")
    if reply != b"stamped":
        raise ScriptFailed(f"stamp got {reply.decode()!r}")


def _drained(engine: LeasedEngine, known: Shards) -> Exchange[Shards]:
    """Return the settled map, without shards that got their last message taken and forgot all deduplication keys."""
    now_ms = int((yield from server_time(engine)).timestamp() * 1000)
    former = tuple(each for each in known.former if each[0] > now_ms)
    shards, remembered = _beside(engine, known), {name for _, names in former for name in names}
    counted = checked((yield from shards.across(known.draining, lambda _, one: _holds(one))))
    draining = tuple(name for name in known.draining if name in remembered or counted[name])
    return Shards(known.epoch, known.names, draining, former)


def _holds(engine: LeasedEngine) -> Exchange[bool]:
    waiting, delayed, leases, dead, *_ = yield count_call(engine)
    return bool(waiting or delayed or leases or dead)


def spread(queue: str, count: int, present: Sequence[str], others: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of `count` shards whose slots divide the slots of a cluster as evenly as possible.

    Shards that get messages now stay, as far as there are not to be fewer; the first one always does.
    """
    start, kept = slot_of(queue, FIRST), [name for name in present if name != FIRST]
    places = [(start + round(step * SLOTS / count)) % SLOTS for step in range(1, count)]
    names = []
    for place in places:
        near = [
            name for name in kept if count < len(present) or _apart(slot_of(queue, name), place) <= SLOTS / count / 2
        ]
        if near:
            best = min(near, key=lambda name: _apart(slot_of(queue, name), place))
            kept.remove(best)
            names.append(best)
        else:
            names.append("")
    if count >= len(present):  # nobody loses messages only because the queue grows
        for name in kept:
            names[names.index("")] = name
    taken = {FIRST, *present, *others, *names}
    for at, place in enumerate(places):
        if not names[at]:
            free = (str(number) for number in range(1, _TRIES) if str(number) not in taken)
            names[at] = min(free, key=lambda name: _apart(slot_of(queue, name), place))
            taken.add(names[at])
    return (FIRST, *names)


def _apart(one: int, other: int) -> int:
    return min((one - other) % SLOTS, (other - one) % SLOTS)
