"""Operations for operators: redrive, purge, pause, cancel, forget, unregister, and releasing leases of others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.adopting import reenter, seize
from rmq_core.discipline.leased.operations.inspecting import browsing, stored_in
from rmq_core.discipline.leased.operations.publishing import deduplicates, key_bytes
from rmq_core.discipline.leased.operations.selecting import number, purge_where, redrive_where, remove
from rmq_core.discipline.leased.operations.settling import give_back, release
from rmq_core.envelope import codec
from rmq_core.envelope.matching import Match
from rmq_core.envelope.payloads import digest
from rmq_core.errors import ConfigurationError, LeaseLost, QueueNotEmpty, ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Call, Command, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.history import actor
from rmq_core.observe.fact import Act
from rmq_core.policy import whole
from rmq_core.queue.choosing import Changes, wanted_ids
from rmq_core.queue.keys import QUEUES, UNHELD
from rmq_core.reports import OnProgress, SettleReport

_CHOSEN = 10  # per script, which blocks the server: finding one of 100,000 dead letters takes about a millisecond
_SLICE = 250
_HELD = ("ready", "isolated", "delayed", "lease(s)", "dead", "completed", "failed")
_WAITING = {"ready": ("ready", "isolated"), "isolated": ("isolated",), "delayed": ("delayed",)}


def redrive(
    engine: LeasedEngine,
    max_messages: int | None = None,
    *,
    where: Match | None = None,
    progress: OnProgress | None = None,
) -> Exchange[int]:
    """Move the oldest dead letters back to ready with a fresh delivery budget; return how many.

    where: only those that meet these conditions. progress: called after each step; the redrive ends there if it returns
    False. Raises QueueFull when the server has no memory for them; they stay dead letters then.
    """
    if max_messages is not None:
        whole("max_messages", max_messages, minimum=1)
    changes = Changes(max_messages, progress)
    try:
        yield from redrive_where(engine, where, changes) if where is not None else _redrive_all(engine, changes)
    finally:
        _redriven(engine, changes.changed)
    return changes.changed


def _redrive_all(engine: LeasedEngine, changes: Changes) -> Exchange[None]:
    keys = engine.keys
    while not changes.over:
        ask = 1000 if changes.left is None else min(1000, changes.left)
        count = number((yield script("leased/redrive", keys, most=ask, bell=keys.bell)), b"redriven ")
        if not count:
            break
        changes.add(count)


def redrive_some(engine: LeasedEngine, message_ids: Iterable[str]) -> Exchange[int]:
    """Move the dead letters with these ids back to ready with a fresh delivery budget; return how many were moved.

    Scans the dead letters, the newest first. Raises QueueFull when the server has no memory for them.
    """
    wanted = wanted_ids(message_ids)
    keys, moved = engine.keys, 0
    found = yield from find(keys.dead, wanted, grows_left=True)
    chosen = list(reversed(found.values()))  # the oldest must be claimed first
    for lo in range(0, len(chosen), _CHOSEN):
        some = chosen[lo : lo + _CHOSEN]
        reply = yield script("leased/redrive_some", keys, bell=keys.bell, letters=some)
        moved += number(reply, b"redriven ")
    engine.state(Operation.REDRIVE, moved)
    # others may redrive at the same time
    engine.state(Act.REDRIVE, moved, ids=list(found) if moved == len(found) else ())
    return moved


def purge(
    engine: LeasedEngine, target: str, *, where: Match | None = None, progress: OnProgress | None = None
) -> Exchange[int]:
    """Delete all messages in `ready`, `isolated`, `delayed`, `dead`, `completed` or `failed`; return how many.

    where: only those that meet these conditions. progress: called after each step of a purge with conditions, which
    ends there if it returns False. `isolated` are the ready messages that failed together before; `ready` includes
    them. If the queue's settings have `dedup` or `dedup_key`, messages purged from ready, isolated or delayed can be
    published again at once. A key that the publishing call named, or that belongs to a dead letter, is remembered until
    its window ends; see `forget`.
    """
    if target not in UNHELD:
        raise ConfigurationError(
            f"target must be one of {', '.join(UNHELD)}, not {target!r}; leases can only be settled"
        )
    if where is not None:
        removed = yield from purge_where(engine, target, where, Changes(progress=progress))
    else:
        removed = yield from _purge(engine, target)
    engine.state(Act.PURGE, reason=f"{removed} of {target}")
    return removed


def _purge(engine: LeasedEngine, target: str) -> Exchange[int]:
    if target in _WAITING and deduplicates(engine):
        return (yield from _purge_with_keys(engine, _WAITING[target]))
    key, kind = stored_in(engine, target)
    if target == "ready":
        call = script("leased/purge", key=key, delayed=engine.keys.delayed, kind="ready")
    else:
        call = script("leased/purge", key=key, kind=kind)
    return number((yield call), b"removed ")


def pause(engine: LeasedEngine) -> Exchange[None]:
    """Stop handing out messages; publishing and settling go on. Waiting claims wait until `resume`."""
    yield _pause(engine, "1")
    engine.state(Act.PAUSE)


def resume(engine: LeasedEngine) -> Exchange[None]:
    """Hand out messages again."""
    yield _pause(engine, "0")
    engine.state(Act.RESUME)


def cancel(engine: LeasedEngine, message_id: str, *, dedup_key: str | bytes | None = None) -> Exchange[bool]:
    """Remove a ready or delayed message; return False when it is neither. A leased message is not removed.

    Scans the queue, the newest message first. If several ready messages have this id, it removes the newest. A
    deduplication key that comes from the queue's settings (`dedup`, `dedup_key`) can be used again. A key that the
    publishing call named is not stored with the message: pass it as `dedup_key` here too, or a message that replaces
    this one counts as a duplicate.
    """
    wanted = frozenset([checked_id(message_id)])
    given = None if dedup_key is None else digest("key", key_bytes(dedup_key))
    for key, kind in ((engine.keys.ready, "newest"), (engine.keys.delayed, "zset")):
        found = yield from find(key, wanted)
        if found and (yield from remove(engine, key, kind, [found[message_id]], given)):
            engine.state(Act.CANCEL, ids=[message_id])
            return True
    return False


def forget(engine: LeasedEngine, dedup_key: str | bytes) -> Exchange[bool]:
    """Let a deduplication key be published again before its window ends; return False when it was not remembered."""
    known = engine.keys.dedup(digest("key", key_bytes(dedup_key)))
    reply = yield script("leased/purge", key=known, kind="string")
    return bool(number(reply, b"removed "))


def remembered(engine: LeasedEngine, dedup_key: str | bytes) -> Exchange[float | None]:
    """Return for how many seconds a deduplication key is still remembered; None if it is not, and can be published."""
    left_ms = yield Command(("PTTL", engine.keys.dedup(digest("key", key_bytes(dedup_key)))))
    return left_ms / 1000 if left_ms >= 0 else None


def unregister(engine: LeasedEngine) -> Exchange[None]:
    """Remove an empty queue from the list of queues, so that tools no longer inspect it.

    Raises QueueNotEmpty, which names what the queue holds, dead letters and logs included. Another process that has
    published to the queue before does not add it to the list again; a new queue object does with its first publish or
    claim. On a cluster the list has a slot of its own, so that the check and the removal are two steps.
    """
    try:
        held = yield script("leased/unregister", engine.keys, names=QUEUES, name=engine.keys.name)
    except ScriptFailed as refused:
        if "same slot" not in str(refused):  # redis-py removes the code CROSSSLOT from the text
            raise
        held = yield script("leased/unregister", engine.keys, name=engine.keys.name)
        if not any(held):
            yield Command(("SREM", QUEUES, engine.keys.name))
    if any(held):
        found = ", ".join(f"{count:,} {what}" for what, count in zip(_HELD, held, strict=True) if count)
        raise QueueNotEmpty(f"queue {engine.keys.name!r} holds {found}: consume or purge them first, or keep the queue")
    if engine.tally is not None:
        engine.tally.clear()  # a flush would create the history again
    engine.registered = False


def release_lease(engine: LeasedEngine, lease_id: str, *, if_owner: str | None = None) -> Exchange[SettleReport]:
    """Release a lease by its id alone, when its holder is known to have ended; no delivery is counted.

    The holder is fenced off. if_owner: release it only when this owner holds it, else raise LeaseOwnedByOther. Raises
    LeaseLost when there is no such lease, LeaseAlreadySettled when it was acked as a whole.
    """
    lease = yield from seize(engine, lease_id, None, if_owner)
    return (yield from give_back(engine, lease, "release", by=actor()))


def release_unanswered(engine: LeasedEngine) -> Exchange[None]:
    """Release the leases of claims whose reply never arrived."""
    for lease_id in list(engine.unanswered):
        lease = yield from reenter(engine, lease_id)
        if lease is not None:
            with contextlib.suppress(LeaseLost):
                yield from release(engine, lease)
        engine.unanswered.pop(lease_id, None)


def _purge_with_keys(engine: LeasedEngine, parts: Sequence[str]) -> Exchange[int]:
    """Delete the messages of these parts, the next to be claimed first, and free their deduplication keys.

    Deletes from each part at most as many messages as it holds at the start.
    """
    removed = 0
    for part in parts:
        key, kind = stored_in(engine, part)
        slice_ = browsing(key, kind, 0, _SLICE)
        left, found, _ = yield slice_
        while found and left > 0:  # without `left`, fast publishers could keep the loop running
            some = found[:left]
            gone = yield from remove(engine, key, "oldest" if kind == "list" else "zset", some)
            removed, left = removed + gone, left - len(some)
            found = (yield slice_)[1]
    return removed


def find(key: bytes, wanted: frozenset[str], *, grows_left: bool = False) -> Exchange[dict[str, bytes]]:
    """Return the stored envelopes of the wanted messages by id.

    Indexes count from the end at which messages are added. So a claim, which removes at the other end, shifts no index,
    and a publish can at most make the scan read some messages twice.
    """
    found: dict[str, bytes] = {}
    lo = 0
    while len(found) < len(wanted):
        first, last = (lo, lo + 999) if grows_left else (-lo - 1000, -lo - 1)
        entries = yield script("leased/scan", key=key, first=first, last=last)
        for envelope in entries:
            message_id = codec.split(envelope).id
            if message_id in wanted:
                found[message_id] = bytes(envelope)
        if len(entries) < 1000:
            break
        lo += 900  # slices overlap, because the list changes during the scan
    return found


def checked_id(message_id: str) -> str:
    if not isinstance(message_id, str):
        raise ConfigurationError(f"message_id must be the str that publish returned, not {message_id!r}")
    return message_id


def _redriven(engine: LeasedEngine, moved: int) -> None:
    engine.state(Operation.REDRIVE, moved)
    engine.state(Act.REDRIVE, moved)


def _pause(engine: LeasedEngine, on: str) -> Call:
    return script("leased/pause", engine.keys, paused=on, bell=engine.keys.bell)
