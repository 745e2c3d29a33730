"""Claiming: new leases, takeovers, adoption, and waiting for work without polling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from rmq_core.errors import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    NotDurable,
    QueueUnavailable,
    RedisMessageQueueError,
    ScriptFailed,
)
from rmq_core.events import Operation
from rmq_core.exchange import Call, Encodable, Exchange, Wait
from rmq_core.ids import anonymous_lease_id, nonce
from rmq_core.keys import check_name
from rmq_core.leased.engine import Engine
from rmq_core.leased.operations.durability import apart, check, confirmation
from rmq_core.leased.operations.publishing import register
from rmq_core.leased.operations.reclaiming import reclaim
from rmq_core.lua import load
from rmq_core.messages import Lease
from rmq_core.policy import milliseconds, whole

_INLINE = 4000


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller wants to claim, checked. `mode` tells the script whether the lease id can exist.

    again: an earlier claim under this id and nonce ended without an answer, and may have been granted.
    """

    id: str
    mode: str
    nonce: str
    lease_ms: int | str
    max_messages: int
    owner: str
    again: bool = False


def claim(
    engine: Engine,
    *,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
    lease_id: str | None = None,
    owner: str | None = None,
) -> Exchange[Lease | None]:
    """Take the oldest ready messages under a lease, or None when there are none within `wait`.

    lease, wait: seconds or timedelta. An existing `lease_id` is taken over: the same messages under a new token, the
    former holder fenced off, one more delivery counted. Raises LeaseAlreadySettled when that id was acked whole.
    """
    wait_ms = milliseconds("wait", wait)
    request = _request(engine, max_messages, lease, lease_id, owner)
    try:
        if not engine.registered:
            yield from register(engine)
        return (yield from _wait(engine, request, wait_ms))
    except BaseException as error:
        _keep(engine, request, error)
        raise


def claim_next(
    engine: Engine,
    *,
    ack: Lease,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
) -> Exchange[Lease | None]:
    """Ack a whole lease and claim the next messages in one round trip. Raises LeaseLost, then nothing is claimed."""
    wait_ms = milliseconds("wait", wait)
    request = _new(engine, max_messages, lease, ack.owner)
    try:
        words, late, envelopes = yield from _ack_and_claim(engine, request, ack)
        if words[0] == "claimed":
            return (yield from _hand_over(engine, request, words, late, envelopes))
        yield from reclaim_all(engine, late)
        if not (wait_ms or late):
            return None
        return (yield from _wait(engine, request, wait_ms))
    except BaseException as error:
        _keep(engine, request, error)
        raise


def _ack_and_claim(
    engine: Engine, request: Request, ack: Lease
) -> Exchange[tuple[list[str], list[bytes], list[bytes]]]:
    keys, config = engine.keys, engine.config
    call = Call(
        load("leased/claim_next"),
        (
            keys.ready, keys.leases, keys.lease(request.id), keys.fence, keys.delayed, keys.waiters, keys.wake,
            keys.timer, keys.lease(ack.id), keys.settled(ack.id), keys.done(ack.id), keys.completed,
        ),
        (
            request.id, ack.id, request.nonce, request.lease_ms, request.max_messages, _inline(request), request.owner,
            token_of(ack), config.settled_ttl_ms if ack.named else 0, config.completed_log, keys.bell,
            config.max_deliveries or 0,
        ),
        confirm=confirmation(engine),
    )  # fmt: skip
    reply, confirmed = apart(call, (yield call))
    words = reply[0].decode().split(" ")
    if words[0] == "lost":
        raise lost(engine, ack)
    if words[0] not in {"claimed", "empty"}:
        raise ScriptFailed(f"claim_next got {words[0]!r}")
    ack.fate.settled = True
    engine.tell(Operation.ACK, int(words[-1]), ack.id)
    check(engine, f"acked lease {ack.id!r}", confirmed)
    return words, reply[1], reply[2]


def adopt(
    engine: Engine,
    lease_id: str,
    *,
    owner: str | None = None,
    if_owner: str | None = None,
    lease: timedelta | float | None = None,
) -> Exchange[Lease]:
    """Take a lease over by its id alone; its former holder is fenced off.

    owner: the new owner; None keeps the recorded one. Under the same owner it is a hand-over and counts no delivery.
    if_owner: only when that owner holds it, else LeaseOwnedByOther. Raises LeaseLost when it is gone,
    LeaseAlreadySettled when it was acked whole.
    """
    new, expected = _text("owner", owner), _text("if_owner", if_owner)
    lease_ms, name = engine.lease_ms(lease), check_name("lease_id", lease_id)
    secret = engine.unanswered.get(name) or nonce()
    reply = yield _adoption(engine, name, (secret, lease_ms, _flag(owner), new, _flag(if_owner), expected))
    verdict, _, rest = reply.decode().partition(" ")
    if verdict != "owned":
        engine.unanswered.pop(name, None)
    if verdict == "taken":
        return _taken(engine, lease_id, rest)
    if verdict == "settled":
        raise LeaseAlreadySettled(lease_id, int(rest.split(" ")[0]))
    if verdict == "owned":
        raise LeaseOwnedByOther(lease_id, f"it is owned by {rest!r}, not by {if_owner!r}")
    if verdict == "exhausted":
        yield from reclaim(engine, lease_id, used_up=True)
        raise LeaseLost(lease_id, "its deliveries are used up")
    raise LeaseLost(lease_id, "there is no lease of this id")


def reenter(engine: Engine, lease_id: str) -> Exchange[Lease | None]:
    """The lease of an unanswered claim; None when it was not granted, or when somebody else holds it by now."""
    secret = engine.unanswered[lease_id]
    reply = yield _adoption(engine, lease_id, (secret, engine.lease_ms(None), "0", "", "2", secret))
    verdict, _, rest = reply.decode().partition(" ")
    return _taken(engine, lease_id, rest) if verdict == "taken" else None


def _adoption(engine: Engine, lease_id: str, args: tuple[Encodable, ...]) -> Call:
    keys = engine.keys
    return Call(
        load("leased/adopt"),
        (keys.leases, keys.lease(lease_id), keys.fence, keys.settled(lease_id), keys.done(lease_id)),
        (lease_id, *args, engine.config.max_deliveries or 0),
    )


def reclaim_all(engine: Engine, late: list[bytes]) -> Exchange[int]:
    """Take back every lease of the list that is expired; the number of messages."""
    moved = 0
    for lease_id in late:
        moved += yield from reclaim(engine, lease_id.decode())
    return moved


def token_of(lease: Lease) -> str:
    """The right to settle a lease; ConfigurationError when it was read from JSON."""
    if lease.token is None:
        raise ConfigurationError(f"lease {lease.id!r} was read from JSON and has no token; adopt(lease.id) it first")
    return lease.token


def lost(engine: Engine, lease: Lease) -> LeaseLost:
    """Note that a lease is gone; the error to raise."""
    lease.fate.lost = True
    engine.tell(Operation.LOST, lease.count, lease.id)
    return LeaseLost(lease.id)


def _wait(engine: Engine, request: Request, wait_ms: int) -> Exchange[Lease | None]:
    """Claim, blocking on the wake list between attempts for `wait_ms` by the server's clock."""
    until = block = 0
    while True:
        call = _call(engine, request, wait_ms, until)
        reply = yield Wait(engine.keys.wake, block, call) if block else call
        words, late = reply[0].decode().split(" ", 7), reply[1]
        if words[0] in {"claimed", "taken"}:
            return (yield from _hand_over(engine, request, words, late, reply[2]))
        if words[0] == "settled":
            raise LeaseAlreadySettled(request.id, int(words[1]))
        if words[0] == "exhausted":
            yield from reclaim(engine, request.id, used_up=True)
            block = 0
            continue
        if words[0] != "empty":
            raise ScriptFailed(f"claim got {words[0]!r}")
        block, until = int(words[1]), int(words[2])
        yield from reclaim_all(engine, late)
        if not late and not block:
            return None


def _hand_over(
    engine: Engine, request: Request, words: list[str], late: list[bytes], envelopes: list[bytes]
) -> Exchange[Lease]:
    """Everything between the grant and the caller's hands; when it fails, the id can be entered again."""
    try:
        granted = yield from _granted(engine, request, words, envelopes)
        yield from reclaim_all(engine, late)
    except LeaseLost:
        raise
    except RedisMessageQueueError:
        engine.unanswered[request.id] = request.nonce
        raise
    return granted


def _granted(engine: Engine, request: Request, words: list[str], envelopes: list[bytes]) -> Exchange[Lease]:
    if words[0] == "taken":
        return (yield from _fetch(engine, _taken(engine, request.id, " ".join(words[1:]))))
    token, deadline, taken, limit = words[1], words[2], int(words[3]), int(words[4])
    engine.tell(Operation.CLAIM, taken, request.id)
    granted = Lease(
        engine.keys.name, request.id, request.owner, taken, _deadline(deadline), token,
        named=request.mode == "named", envelopes=envelopes or None,
    )  # fmt: skip
    if taken < limit:
        return (yield from _fill(engine, granted, limit))
    return granted if envelopes else (yield from _fetch(engine, granted))


def _fetch(engine: Engine, granted: Lease) -> Exchange[Lease]:
    """Bring the messages of a lease that fits one chunk, when they did not come with the answer."""
    if granted.count > _INLINE:
        return granted
    keys = (engine.keys.lease(granted.id), engine.keys.settled(granted.id))
    reply = yield Call(load("leased/read"), keys, (token_of(granted), 0, granted.count - 1), slot=False)
    complete = reply[0] == b"read" and not reply[3] and len(reply[4]) == granted.count
    return replace(granted, envelopes=reply[4]) if complete else granted


def _fill(engine: Engine, granted: Lease, limit: int) -> Exchange[Lease]:
    """Go on moving messages into a large lease, chunk by chunk."""
    count, token = granted.count, granted.token or ""
    while count < limit:
        reply = yield Call(
            load("leased/fill"), (engine.keys.ready, engine.keys.lease(granted.id)), (token, count, limit - count)
        )
        if reply == b"lost":
            raise lost(engine, granted)
        moved = int(reply.split()[1])
        if not moved:
            break
        count += moved
    if count == granted.count:
        return granted
    engine.tell(Operation.CLAIM, count - granted.count, granted.id)
    return replace(granted, count=count, envelopes=None)


def _taken(engine: Engine, lease_id: str, rest: str) -> Lease:
    token, deadline, count, _, takeovers, _, owner = rest.split(" ", 6)
    engine.tell(Operation.TAKEOVER, int(count), lease_id)
    return Lease(
        engine.keys.name, lease_id, owner, int(count), _deadline(deadline), token, int(takeovers),
        named=not lease_id.startswith("~"),
    )  # fmt: skip


def _request(
    engine: Engine, max_messages: int, lease: timedelta | float | None, lease_id: str | None, owner: str | None
) -> Request:
    whole("max_messages", max_messages, minimum=1)
    lease_ms, owned = engine.lease_ms(lease), _text("owner", owner)
    if lease_id is not None:
        if check_name("lease_id", lease_id).startswith("~"):
            raise ConfigurationError("lease_id must not begin with '~': such ids are made by the queue")
        secret = engine.unanswered.pop(lease_id, None)
        return Request(lease_id, "named", secret or nonce(), lease_ms, max_messages, owned, again=secret is not None)
    for known in list(engine.unanswered):
        if known.startswith("~") and (secret := engine.unanswered.pop(known, None)):
            return Request(known, "again", secret, lease_ms, max_messages, owned, again=True)
    return _new(engine, max_messages, lease, owner)


def _new(engine: Engine, max_messages: int, lease: timedelta | float | None, owner: str | None) -> Request:
    whole("max_messages", max_messages, minimum=1)
    return Request(anonymous_lease_id(), "new", nonce(), engine.lease_ms(lease), max_messages, _text("owner", owner))


def _call(engine: Engine, request: Request, wait_ms: int, until: int) -> Call:
    keys = engine.keys
    return Call(
        load("leased/claim"),
        (
            keys.ready, keys.leases, keys.lease(request.id), keys.fence, keys.delayed, keys.waiters, keys.wake,
            keys.timer, keys.done(request.id), keys.settled(request.id),
        ),
        (
            request.id, request.mode, request.nonce, request.lease_ms, request.max_messages, _inline(request),
            request.owner, engine.config.max_deliveries or 0, f"w{request.nonce}" if wait_ms else "", wait_ms, until,
            keys.bell,
        ),
    )  # fmt: skip


def _inline(request: Request) -> str:
    return "1" if request.max_messages <= _INLINE else "0"


def _keep(engine: Engine, request: Request, error: BaseException) -> None:
    """A claim that ended without an answer may have been granted: the next one, or `close`, enters it again."""
    if isinstance(error, LeaseLost | LeaseAlreadySettled):
        return
    answered = isinstance(error, RedisMessageQueueError) and not isinstance(error, QueueUnavailable | NotDurable)
    if request.again or not answered:
        engine.unanswered[request.id] = request.nonce


def _text(parameter: str, value: str | None) -> str:
    if value is None or value == "":
        return ""
    return check_name(parameter, value)


def _flag(value: Any) -> str:
    return "0" if value is None else "1"


def _deadline(text: str) -> int | None:
    return None if "inf" in text else int(text)
