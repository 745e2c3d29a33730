"""What an operator does: redrive, purge, pause, cancel, forget; and the last step of a queue object."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from rmq_core import codec
from rmq_core.errors import ConfigurationError, LeaseLost, ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Call, Exchange
from rmq_core.keys import UNHELD
from rmq_core.leased.engine import Engine
from rmq_core.leased.operations.adopting import adopt, reenter
from rmq_core.leased.operations.inspecting import stored_in
from rmq_core.leased.operations.publishing import key_bytes
from rmq_core.leased.operations.settling import release
from rmq_core.lua import load
from rmq_core.messages import SettleReport
from rmq_core.policy import whole

_CHOSEN = 10  # finding one of 100,000 dead letters takes the server about a millisecond


def redrive(engine: Engine, max_messages: int | None = None) -> Exchange[int]:
    """Move the oldest dead letters back to ready with a fresh delivery budget; how many were moved.

    Raises QueueFull when the server has no memory for them; they stay dead letters then.
    """
    if max_messages is not None:
        whole("max_messages", max_messages, minimum=1)
    keys, moved = engine.keys, 0
    while max_messages is None or moved < max_messages:
        ask = 1000 if max_messages is None else min(1000, max_messages - moved)
        reply = yield Call(load("leased/redrive"), (keys.dead, keys.ready, keys.waiters, keys.wake), (ask, keys.bell))
        count = _number(reply, b"redriven ")
        if not count:
            break
        moved += count
    engine.tell(Operation.REDRIVE, moved)
    return moved


def redrive_some(engine: Engine, message_ids: Iterable[str]) -> Exchange[int]:
    """Move the dead letters of these ids back to ready with a fresh delivery budget; how many were found and moved.

    Scans the dead letters, the newest first. Raises QueueFull when the server has no memory for them.
    """
    if isinstance(message_ids, str):
        raise ConfigurationError("message_ids must be several ids, not one str; pass [message_id]")
    wanted = frozenset(map(_message_id, message_ids))
    keys, moved = engine.keys, 0
    found = yield from _find(keys.dead, wanted, grows_left=True)
    chosen = list(reversed(found.values()))  # the oldest is to be claimed first
    for lo in range(0, len(chosen), _CHOSEN):
        some = chosen[lo : lo + _CHOSEN]
        reply = yield Call(
            load("leased/redrive_some"), (keys.dead, keys.ready, keys.waiters, keys.wake), (keys.bell, *some)
        )
        moved += _number(reply, b"redriven ")
    engine.tell(Operation.REDRIVE, moved)
    return moved


def purge(engine: Engine, target: str) -> Exchange[int]:
    """Delete everything in `ready`, `delayed`, `dead`, `completed` or `failed`; how many messages that were.

    `isolated` are those of the ready messages that failed together before; `ready` deletes them, too.
    """
    if target not in UNHELD:
        raise ConfigurationError(f"target must be one of {', '.join(UNHELD)}, not {target!r}; leases are settled")
    key, kind = stored_in(engine, target)
    keys = (key,) if target != "ready" else (key, engine.keys.delayed)
    call = Call(load("leased/purge"), keys, ("ready" if target == "ready" else kind,))
    return _number((yield call), b"removed ")


def pause(engine: Engine) -> Exchange[None]:
    """Stop handing out messages; publishing and settling go on. Waiting claims wait until `resume`."""
    yield _pause(engine, "1")


def resume(engine: Engine) -> Exchange[None]:
    """Hand out messages again."""
    yield _pause(engine, "0")


def cancel(engine: Engine, message_id: str) -> Exchange[bool]:
    """Remove a ready or delayed message; False when it is neither, which a leased one is not.

    Scans the queue, the newest first; of ready messages with one id it removes the newest.
    """
    wanted = frozenset([_message_id(message_id)])
    for key, kind in ((engine.keys.ready, "list"), (engine.keys.delayed, "zset")):
        found = yield from _find(key, wanted)
        if found:
            reply = yield Call(load("leased/purge"), (key,), (kind, found[message_id]))
            if _number(reply, b"removed "):
                return True
    return False


def forget(engine: Engine, dedup_key: str | bytes) -> Exchange[bool]:
    """Let a deduplication key be published again before its window ends; False when it was not remembered."""
    digest = codec.digest("key", key_bytes(dedup_key))
    reply = yield Call(load("leased/purge"), (engine.keys.dedup(digest),), ("string",))
    return bool(_number(reply, b"removed "))


def release_lease(engine: Engine, lease_id: str, *, if_owner: str | None = None) -> Exchange[SettleReport]:
    """Give back what a lease holds by its id alone, for its holder is known to work no more; no delivery is counted.

    The holder is fenced off. if_owner: only when that owner holds it, else LeaseOwnedByOther. Raises LeaseLost when
    there is no such lease, LeaseAlreadySettled when it was acked whole.
    """
    lease = yield from adopt(engine, lease_id, if_owner=if_owner)
    return (yield from release(engine, lease))


def release_unanswered(engine: Engine) -> Exchange[None]:
    """Give back what claims took whose answer never came."""
    for lease_id in list(engine.unanswered):
        lease = yield from reenter(engine, lease_id)
        if lease is not None:
            with contextlib.suppress(LeaseLost):
                yield from release(engine, lease)
        engine.unanswered.pop(lease_id, None)


def _find(key: bytes, wanted: frozenset[str], *, grows_left: bool = False) -> Exchange[dict[str, bytes]]:
    """The stored envelopes of messages by id.

    Slices count from the end at which nothing is taken away: claiming shifts no index, publishing repeats some at most.
    """
    found: dict[str, bytes] = {}
    lo = 0
    while len(found) < len(wanted):
        where = (lo, lo + 999) if grows_left else (-lo - 1000, -lo - 1)
        entries = yield Call(load("leased/scan"), (key,), where, slot=False)
        for envelope in entries:
            message_id = codec.split(envelope).id
            if message_id in wanted:
                found[message_id] = bytes(envelope)
        if len(entries) < 1000:
            break
        lo += 900  # overlaps, since the list moves while it is read
    return found


def _message_id(message_id: str) -> str:
    if not isinstance(message_id, str):
        raise ConfigurationError(f"message_id must be the str that publish returned, not {message_id!r}")
    return message_id


def _pause(engine: Engine, on: str) -> Call:
    keys = engine.keys
    return Call(load("leased/pause"), (keys.waiters, keys.wake, keys.leases), (on, keys.bell))


def _number(reply: bytes, prefix: bytes) -> int:
    if not reply.startswith(prefix):
        raise ScriptFailed(f"the server answered {reply.decode()!r}")
    return int(reply[len(prefix) :])
