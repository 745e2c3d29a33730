"""Operations for operators: on leases, dead letters, selected messages, and the whole queue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import inf

from rmq_core.envelope import codec
from rmq_core.envelope.codec import Publishable
from rmq_core.envelope.export_record import StoredPage, is_isolated
from rmq_core.envelope.matching import Match, Test, chosen_by
from rmq_core.envelope.payloads import decode_payload, encode_headers, key_bytes, key_digest, one_line, readable
from rmq_core.errors import ConfigurationError, LeaseLost, QueueNotEmpty, ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Call, Command, Exchange, number_after, text_of
from rmq_core.exchange.scripts import script
from rmq_core.kernel.dead_reasons import reasons_in
from rmq_core.kernel.keys import QUEUES, UNHELD, check_name
from rmq_core.kernel.selecting import (
    Changes,
    Markers,
    Place,
    Position,
    Some,
    change_chosen,
    discard_chosen,
    drop_chosen,
    found_in,
    number_in,
    position_of,
    redrive_all,
    wanted_ids,
)
from rmq_core.kernel.settling import cause_of, end_each, expired, without_report
from rmq_core.kernel.transfer import Cursor, list_page
from rmq_core.leased.claiming import join, owner_of, reenter, seize
from rmq_core.leased.explaining import find_held, in_lease
from rmq_core.leased.inspecting import browsing, held_by, stats, stored_in
from rmq_core.leased.publishing import deduplicates, digest_of, typed
from rmq_core.leased.reclaiming import reclaim_lease
from rmq_core.leased.settling import MOVE, NOW, give_back, release, some_call
from rmq_core.leased.shards.state import PART
from rmq_core.leased.state import LeasedEngine
from rmq_core.leased.transfer import STATES, export_page
from rmq_core.observe.fact import Act
from rmq_core.observe.history import actor
from rmq_core.policy import whole
from rmq_core.reports import OnProgress, ReasonGroup, SearchPage, SettleReport

_SIDES = {"ready": "right", "dead": "left", "completed": "left", "failed": "left"}
"""The end of each list at which messages are added: a scan from there overlooks none when others are added or taken."""
TARGETS = tuple(dict.fromkeys((*UNHELD, *STATES)))
_AT_ONCE, _ROUNDS = 250, 3


def search(engine: LeasedEngine, target: str, where: Match, *, after: str | None = None) -> Exchange[SearchPage]:
    """Look through one page of the messages in a state, and return those that meet the conditions.

    target: `ready` (without isolated messages), `isolated`, `delayed`, `leased`, `dead`, `completed` or `failed`; lists
    are searched from the newest message on. after: what the last step returned, None for the first one. A step reads at
    most 1,000 messages or 4 MiB; repeat it until `after` is None.
    """
    if target not in TARGETS:
        raise ConfigurationError(f"target must be one of {', '.join(TARGETS)}, not {target!r}")
    test, at = tested(engine, where), position_of(after, target)
    page, total = yield from _page(engine, target, at)
    if engine.keys.layout and target in _WAITING["ready"]:  # one pass over the groups finds both kinds
        test = _both(test, is_isolated if target == "isolated" else lambda envelope: not is_isolated(envelope))
    return found_in(page, target, test, at, total)


def dead_reasons(engine: LeasedEngine, *, progress: OnProgress | None = None) -> Exchange[list[ReasonGroup]]:
    """Group all dead letters by the reasons of their failures, the largest group first.

    Numbers, hex ids and UUIDs are replaced by `#`. progress: called after each page; False stops the count there.
    """
    return (yield from reasons_in(engine.keys.dead, progress))


def discard(engine: LeasedEngine, message_ids: Iterable[str]) -> Exchange[int]:
    """Delete the dead letters with these ids; return how many. Of several with one id, the newest are deleted."""
    done = yield from discard_chosen(Place(engine.keys.dead, _SIDES["dead"]), message_ids)
    engine.state(Act.DISCARD, done.deleted, ids=done.ids)
    return done.deleted


def redrive_where(engine: LeasedEngine, where: Match, changes: Changes) -> Exchange[int]:
    """Move dead letters that meet the conditions back to ready, the oldest first; return how many."""
    keys = engine.keys

    def change(some: Some) -> Call:
        return script("leased/redrive_chosen", keys, first=some.first, last=some.last, letters=some.entries)

    return (yield from change_chosen(Place(keys.dead, "right"), tested(engine, where), change, changes))


def purge_where(engine: LeasedEngine, target: str, where: Match, changes: Changes) -> Exchange[int]:
    """Delete the messages in one state that meet the conditions; return how many. `ready` includes isolated ones."""
    test = tested(engine, where)
    parts = ("ready", "isolated") if target == "ready" else (target,)
    for part in parts:
        if part in _SIDES:
            yield from _drop(engine, part, test, changes)
        elif part == "isolated" and (yield from _is_grouped(engine)):
            if target == "isolated":  # else they were among the ready ones
                yield from _drop(engine, "ready", _both(test, is_isolated), changes)
        else:
            yield from _drop_scored(engine, part, test, changes)
        if changes.over:
            break
    return changes.changed


def tested(engine: LeasedEngine, where: Match) -> Test:
    """Return the test of the conditions for this queue. Raises ConfigurationError."""
    config = engine.config
    if (key := config.dedup_key) is None or config.codec is None:
        return chosen_by(where, key, key_bytes)
    return chosen_by(where, lambda payload: key(typed(config, payload)[0]), key_bytes)


def marker_of(engine: LeasedEngine, envelope: bytes) -> bytes:
    """Return the deduplication digest that the queue's settings give a stored message; empty when they give none."""
    try:
        parts = codec.split(envelope)
        kind, data = readable(parts.kind, parts.payload)
        payload = typed(engine.config, decode_payload(kind, data))[0]
        return digest_of(engine, None, payload, kind, data) or b""
    except Exception:  # a damaged message, or one that the key function refuses, must be removed too
        return b""


def remove(
    engine: LeasedEngine, key: bytes, kind: str, envelopes: Sequence[bytes], given: bytes | None = None
) -> Exchange[int]:
    """Remove messages; free the given deduplication key, else the keys that the queue's settings give them."""
    digests = [given] if given else [marker_of(engine, each) for each in envelopes] if deduplicates(engine) else []
    markers = [engine.keys.dedup(digest) for digest in digests]
    reply = yield script(
        "leased/cancel",
        engine.keys,
        key=key,
        markers=markers,
        kind=kind,
        window_ms=engine.dedup_window_ms,
        messages=envelopes,
    )
    return number_after(b"removed ", reply)


def _both(one: Test, other: Test) -> Test:
    return lambda envelope: other(envelope) and one(envelope)


def _is_grouped(engine: LeasedEngine) -> Exchange[bool]:
    """Return whether messages wait in groups, the isolated ones among the others; asks the server."""
    yield browsing(engine, engine.keys.delayed, "isolated", 0, 0)
    return bool(engine.keys.layout)


def _page(engine: LeasedEngine, target: str, at: Position) -> Exchange[tuple[StoredPage, int]]:
    """Return a page, and how many messages are in this state; in groups, a page of `isolated` has the others too."""
    cursor = at.cursor
    place = "ready" if target == "isolated" and (yield from _is_grouped(engine)) else target
    if place in _SIDES:
        key = engine.keys.of(place)
        page = yield from list_page(key, _SIDES[place], target, cursor, of=engine.keys)
        total = (yield browsing(engine, key, "list", 0, 0))[0]
        return page, total
    page = yield from export_page(engine, target, cursor)
    return page, number_in((yield from stats(engine)), target) if at.total is None else at.total


def _drop(engine: LeasedEngine, target: str, test: Test, changes: Changes) -> Exchange[int]:
    def markers(envelopes: Sequence[bytes]) -> list[bytes]:
        return [engine.keys.dedup(marker_of(engine, each)) for each in envelopes]

    freed = Markers(markers, engine.dedup_window_ms) if target == "ready" and deduplicates(engine) else None
    return (yield from drop_chosen(Place(engine.keys.of(target), _SIDES[target], engine.keys), test, changes, freed))


def _drop_scored(engine: LeasedEngine, target: str, test: Test, changes: Changes) -> Exchange[None]:
    """Delete chosen delayed or isolated messages, page by page; a page goes on behind the last message that stays."""
    key, _ = stored_in(engine, target)
    scored, cursor = partial(export_page, engine, target), Cursor()
    total = number_in((yield from stats(engine)), target)
    changes.scanned = 0
    while not changes.over and changes.scanned < total:
        page = yield from scored(cursor)
        chosen = [one.envelope for one in page.messages if test(one.envelope)][: changes.left]
        for lo in range(0, len(chosen), _AT_ONCE):
            changes.changed += yield from remove(engine, key, "zset", chosen[lo : lo + _AT_ONCE])
        cursor = _behind(page, frozenset(chosen), cursor)
        changes.scanned += len(page.messages)
        changes.report(max(total, changes.scanned))
        if not page.messages:
            break


def _behind(page: StoredPage, gone: frozenset[bytes], before: Cursor) -> Cursor:
    kept = next((one for one in reversed(page.messages) if one.envelope not in gone), None)
    return before if kept is None else (kept.envelope, "-inf" if kept.due_ms is None else str(kept.due_ms))


_CHOSEN = 10  # per script, which blocks the server: finding one of 100,000 dead letters takes about a millisecond
_SLICE = 250
HELD = ("ready", "isolated", "delayed", "lease(s)", "dead", "completed", "failed")
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
        if where is not None:
            yield from redrive_where(engine, where, changes)
        else:
            yield from redrive_all(partial(script, "leased/redrive", engine.keys), changes)
    finally:
        engine.state(Operation.REDRIVE, changes.changed)
        engine.state(Act.REDRIVE, changes.changed)
    return changes.changed


def redrive_some(engine: LeasedEngine, message_ids: Iterable[str]) -> Exchange[int]:
    """Move the dead letters with these ids back to ready with a fresh delivery budget; return how many were moved.

    Scans the dead letters, the newest first. Raises QueueFull when the server has no memory for them.
    """
    wanted = wanted_ids(message_ids)
    keys, moved = engine.keys, 0
    found = yield from find(engine, keys.dead, wanted, grows_left=True)
    chosen = list(reversed(found.values()))  # the oldest must be claimed first
    for lo in range(0, len(chosen), _CHOSEN):
        some = chosen[lo : lo + _CHOSEN]
        reply = yield script("leased/redrive_some", keys, letters=some)
        moved += number_after(b"redriven ", reply)
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
    one_by_one = target in _WAITING and deduplicates(engine)
    if one_by_one or (target == "isolated" and (yield from _is_grouped(engine))):
        return (yield from _purge_with_keys(engine, _WAITING[target]))
    key, kind = stored_in(engine, target)
    more = {"delayed": engine.keys.delayed} if target == "ready" else {}
    call = script("leased/purge", engine.keys, key=key, kind="ready" if more else kind, **more)
    return number_after(b"removed ", (yield call))


def pause(engine: LeasedEngine, *, reason: str | None = None) -> Exchange[None]:
    """Stop handing out messages; publishing and settling go on. Waiting claims wait until `resume`.

    reason: for those who see the queue paused; its first 200 characters are kept in the history.
    """
    yield _pause(engine, "1")
    engine.state(Act.PAUSE, reason=one_line(reason))


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
    given = None if dedup_key is None else key_digest(dedup_key)
    for key, kind in ((engine.keys.ready, "newest"), (engine.keys.delayed, "zset")):
        found = yield from find(engine, key, wanted)
        if found and (yield from remove(engine, key, kind, [found[message_id]], given)):
            engine.state(Act.CANCEL, ids=[message_id])
            return True
    return False


def dead_letter(engine: LeasedEngine, message_id: str, *, reason: str | None = None) -> Exchange[bool]:
    """Move a message to the dead letters, however many deliveries it has left; return False when it is not there.

    It may be ready, isolated, delayed or leased. Of a lease, only this message is taken: its holder can no longer
    settle it, and keeps the others; a lease of nothing else ends. Scans the queue, the newest message first, and then
    up to 1,000 leases. reason: for the history of the message, in a line of the kind `moved` that names the operator.
    A redrive makes it ready again.
    """
    wanted, why = checked_id(message_id), one_line(reason)
    for _ in range(_ROUNDS):  # it may be claimed, or given back, between the steps that find and move it
        lease_id, moved = None, (yield from _move_waiting(engine, wanted, why))
        if moved is None:
            held, _ = yield from find_held(engine, wanted)
            if held is None:
                return False
            lease_id, moved = held.lease.id, (yield from _move_held(engine, held.lease.id, wanted, why))
        if moved:
            engine.state(Operation.DEAD, 1, lease_id, message_id=wanted, reason=why or None)
            engine.state(Act.DEAD_LETTER, ids=[wanted], reason=why)
            return True
    return False


def _move_waiting(engine: LeasedEngine, message_id: str, reason: str) -> Exchange[bool | None]:
    """Make a dead letter of a message that waits; return None if there is none, False if it was moved meanwhile."""
    for key, kind in ((engine.keys.ready, "newest"), (engine.keys.delayed, "zset")):
        if found := (yield from find(engine, key, frozenset([message_id]))):
            reply = yield script(
                "leased/dead_letter", engine.keys, engine.settings,
                key=key, kind=kind, owner=one_line(actor()), reason=reason, message=found[message_id],
            )  # fmt: skip
            return bool(number_after(b"dead ", without_report(engine, reply)))
    return None


def _move_held(engine: LeasedEngine, lease_id: str, message_id: str, reason: str) -> Exchange[bool]:
    """Make a dead letter of a message of a lease; return False if the lease, or its holder, is another meanwhile."""
    try:
        lease = yield from join(engine, lease_id)
    except LeaseLost:
        return False
    found = yield from in_lease(engine, lease_id, message_id)  # after `join`, so that the token shows that it is there
    if found is None:
        return False
    # The home of a lease in parts decides how it ends, so its parts stay until then.
    lease.state.joined = lease_id.startswith(PART)
    call = some_call(engine, lease, MOVE, [found[0]], NOW, f"{one_line(actor())}\t{reason}")
    verdict, _, letters = without_report(engine, (yield call)).decode().partition(" ")
    return verdict in {"some", "all"} and letters == "d"


def forget(engine: LeasedEngine, dedup_key: str | bytes) -> Exchange[bool]:
    """Let a deduplication key be published again before its window ends; return False when it was not remembered."""
    digest = key_digest(dedup_key)
    if engine.config.dedup_until == "settled" and (yield Command(("HDEL", engine.keys.unique, digest.hex()))):
        return True
    reply = yield script("leased/purge", key=engine.keys.dedup(digest), kind="string")
    return bool(number_after(b"removed ", reply))


def remembered(engine: LeasedEngine, dedup_key: str | bytes) -> Exchange[float | None]:
    """Return for how many seconds a deduplication key is still remembered; None if it is not, and can be published.

    With `dedup_until="settled"`, a key is remembered for an unknown time: infinity.
    """
    if engine.config.dedup_until == "settled":
        place = text_of((yield Command(("HGET", engine.keys.unique, key_digest(dedup_key).hex()))) or "")
        held = place.startswith("l") and (yield Command(("ZSCORE", engine.keys.leases, place[1:])))
        return inf if place.startswith("w") or held not in (False, None) else None
    left_ms = yield Command(("PTTL", engine.keys.dedup(key_digest(dedup_key))))
    return left_ms / 1000 if left_ms >= 0 else None


def unregister(engine: LeasedEngine) -> Exchange[None]:
    """Remove an empty queue from the list of queues, so that tools no longer inspect it.

    The settings stored with it are removed too. Raises QueueNotEmpty, which names what the queue holds, dead letters
    and logs included. Another process that has
    published to the queue before does not add it to the list again; a new queue object does with its first publish or
    claim. On a cluster the list has a slot of its own, so that the check and the removal are two steps.
    """
    from rmq_core.leased.grouping import forget_groups  # its module imports this one

    check_left(engine, (yield from left(engine)))
    if engine.keys.layout == "grouped":
        yield from forget_groups(engine)


def left(engine: LeasedEngine) -> Exchange[list[int]]:
    """Remove an empty queue, and return what it holds; [] if its shards are others than this object knows."""
    try:
        held: list[int] = yield script("leased/unregister", engine.keys, names=QUEUES, name=engine.keys.name)
    except ScriptFailed as refused:
        if "same slot" not in str(refused):  # redis-py removes the code CROSSSLOT from the text
            raise
        held = yield script("leased/unregister", engine.keys, name=engine.keys.name)
        if held and not any(held):
            yield Command(("SREM", QUEUES, engine.keys.name))
    return held


def check_held(engine: LeasedEngine, held: Sequence[int]) -> None:
    """Raise QueueNotEmpty if a queue holds anything."""
    if any(held):
        found = ", ".join(f"{count:,} {what}" for what, count in zip(HELD, held, strict=True) if count)
        raise QueueNotEmpty(f"queue {engine.name!r} holds {found}: consume or purge them first, or keep the queue")


def check_left(engine: LeasedEngine, held: Sequence[int]) -> None:
    """Let this object know that its queue was removed. Raises QueueNotEmpty if it was not, because it holds this."""
    check_held(engine, held)
    if not held:
        raise QueueNotEmpty(f"queue {engine.name!r} was used, or its shards changed, meanwhile: run this again")
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


def release_leases(engine: LeasedEngine, owner: str) -> Exchange[SettleReport]:
    """Release all leases that an owner holds now, as `release_lease` does; no delivery is counted.

    The report counts the messages of all. Leases that end meanwhile, or that another owner takes over, are left alone.
    What the owner claims meanwhile stays: stop the owner, or pause the queue, before.
    """
    held = yield from held_by(engine, owner)
    return (yield from end_each(held, partial(release_lease, engine, if_owner=owner)))


def expire_leases(engine: LeasedEngine, owner: str, *, reason: str | None = None) -> Exchange[SettleReport]:
    """Reclaim all leases that an owner holds now, as `expire_lease` does; a delivery of each message is counted.

    reason: for the history of the messages. The rest is as for `release_leases`.
    """
    held = yield from held_by(engine, owner)
    return (yield from end_each(held, partial(expire_lease, engine, if_owner=owner, reason=reason)))


def release_unanswered(engine: LeasedEngine) -> Exchange[None]:
    """Release the leases of claims whose reply never arrived."""
    for lease_id in list(engine.unanswered):
        lease = yield from reenter(engine, lease_id)
        if lease is not None:
            with contextlib.suppress(LeaseLost):
                yield from release(engine, lease)
        engine.unanswered.pop(lease_id, None)
        engine.chosen.pop(lease_id, None)


def _purge_with_keys(engine: LeasedEngine, parts: Sequence[str]) -> Exchange[int]:
    """Delete the messages of these parts, the next to be claimed first, and free their deduplication keys.

    Deletes from each part at most as many messages as it holds at the start.
    """
    removed = 0
    for part in parts:
        key, kind = stored_in(engine, part)
        slice_ = browsing(engine, key, kind, 0, _SLICE)
        left, found, _ = yield slice_
        if part == "isolated" and engine.keys.layout:
            key, kind = engine.keys.ready, "list"
        while found and left > 0:  # without `left`, fast publishers could keep the loop running
            some = found[:left]
            gone = yield from remove(engine, key, "oldest" if kind == "list" else "zset", some)
            removed, left = removed + gone, left - len(some)
            found = (yield slice_)[1]
    return removed


def find(
    engine: LeasedEngine, key: bytes, wanted: frozenset[str], *, grows_left: bool = False
) -> Exchange[dict[str, bytes]]:
    """Return the stored envelopes of the wanted messages by id.

    Indexes count from the end at which messages are added. So a claim, which removes at the other end, shifts no index,
    and a publish can at most make the scan read some messages twice.
    """
    found: dict[str, bytes] = {}
    lo = 0
    while len(found) < len(wanted):
        first, last = (lo, lo + 999) if grows_left else (-lo - 1000, -lo - 1)
        entries = yield script("leased/scan", engine.keys, key=key, first=first, last=last)
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


def _pause(engine: LeasedEngine, on: str) -> Call:
    return script("leased/pause", engine.keys, paused=on)


def expire_lease(
    engine: LeasedEngine, lease_id: str, *, if_owner: str | None = None, reason: str | None = None
) -> Exchange[SettleReport]:
    """Reclaim a lease by its id alone, as if its deadline had passed; a delivery is counted.

    Use it when the holder is known to have crashed, `release_lease` when it was stopped on purpose. The holder is
    fenced off. The report says how many messages went back, and how many of them are dead letters now. if_owner: only
    when this owner holds it, else raise LeaseOwnedByOther. reason: for the history of the messages, which else names
    who did it. Raises LeaseLost when there is no such lease, LeaseAlreadySettled when it was acked as a whole.
    """
    name = check_name("lease_id", lease_id)
    required = {} if if_owner is None else {"only_of": owner_of("if_owner", if_owner)}
    done = yield from reclaim_lease(engine, name, "2", cause_of(reason), **required)
    return (yield from expired(done, lease_id, if_owner, engine.keys.done(name)))


def run_now(engine: LeasedEngine, message_id: str) -> Exchange[bool]:
    """End the delay of a message, so that it is ready now; return False when no delayed message has this id."""
    keys, wanted = engine.keys, frozenset([checked_id(message_id)])
    found = yield from find(engine, keys.delayed, wanted)
    if not found:
        return False
    reply = yield script("leased/run_now", keys, message=found[message_id])
    moved = number_after(b"ready ", reply)
    engine.state(Act.RUN_NOW, moved, ids=[message_id])
    return bool(moved)


def edit(
    engine: LeasedEngine,
    message_id: str,
    payload: Publishable | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    by: str = "",
) -> Exchange[bool]:
    """Redrive a dead letter with another payload or other headers, under the same id; return False if there is none.

    None keeps the payload, or the headers; {} removes all headers. One atomic step replaces the dead letter by the
    message. Its history stays, with a line of the kind `edited` that names what was changed, and `by` as its owner.
    Raises PayloadError for what cannot be stored, QueueFull when the server has no memory for it.
    """
    if payload is None and headers is None:
        raise ConfigurationError("payload or headers must be given: redrive_some redrives a dead letter as it is")
    keys, wanted, who = engine.keys, frozenset([checked_id(message_id)]), owner_of("by", by)
    config = engine.config
    new = None if payload is None else typed(config, payload)[1:]
    named = None if headers is None else encode_headers(headers)
    found = yield from find(engine, keys.dead, wanted, grows_left=True)
    if not found:
        return False
    own = codec.split(found[message_id])
    kind, data = new or (own.kind, own.payload)
    body = codec.body(own.id, kind, data, own.headers if named is None else named)
    what = " and ".join(part for part, given in (("payload", payload), ("headers", headers)) if given is not None)
    reply = yield script(
        "leased/redrive_edited", keys, letter=found[message_id], new_body=body, owner=who,
        reason=one_line(what),
    )  # fmt: skip
    moved = number_after(b"redriven ", reply)
    engine.state(Operation.REDRIVE, moved, message_id=message_id)
    engine.state(Act.EDIT, moved, ids=[message_id], by=who, reason=what)
    return bool(moved)
