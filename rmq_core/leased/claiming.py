"""Claims messages: new leases, takeovers, acking and claiming in one call, waiting, adopting; and names of consumers.

A consumer is a reader that works through a queue batch by batch over many runs, such as a streaming query. Its record
names the current run, the stream of that run (which numbers its batches), and the last finished batch. Only one run at
a time uses the name, and it finds what the previous run left unfinished. A run of the same stream is a restart and
takes the name at once; a run of another stream must wait until the previous run is silent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Any, NamedTuple

from rmq_core import errors
from rmq_core.envelope.codec import anonymous_lease_id, nonce
from rmq_core.events import Operation
from rmq_core.exchange import (
    Call,
    Command,
    Encodable,
    Exchange,
    Listen,
    Pipeline,
    Sleep,
    Wait,
    blocks_for,
    entries_of,
    text_of,
)
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.registry import register
from rmq_core.leased.config import DISCIPLINE
from rmq_core.leased.expiring import OVERDUE, bury
from rmq_core.leased.publishing import COMMIT, apart, check, confirming, finish
from rmq_core.leased.reading import read_call
from rmq_core.leased.reclaiming import reclaim
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Isolation, Lease, token_of
from rmq_core.policy import chosen_groups, milliseconds, whole
from rmq_core.reports import ConsumerRegistration

_PLAIN, _INLINE = 100, 4000
"""So many messages are read by a plain command; more than _INLINE do not come with the claim."""
_NEWS = 64
"""How many entries grouped/notify.lua keeps."""
_ACK, _CLAIM = Operation.ACK, Operation.CLAIM


class LeaseRequest(NamedTuple):
    """The validated arguments of a claim.

    mode: whether a lease of this id can exist already: `new` (no), `again` (an unanswered claim may have made it) or
    `named` (the caller chose the id). again: an earlier claim under this id and nonce got no reply, and may have been
    granted. sequential, groups: see `claim`; groups are in the form that scripts read. part: its lease is a part of one
    over several shards, and the caller states what happens to that.
    """

    id: str
    mode: str
    nonce: str
    lease_ms: int | str
    max_messages: int
    owner: str
    again: bool = False
    sequential: bool = False
    groups: str | None = None
    part: bool = False

    @property
    def chosen(self) -> dict[str, str]:
        return chosen_by(self.groups)


def chosen_by(groups: str | None) -> dict[str, str]:
    """Return the argument of scripts that names groups; none for all groups."""
    return {} if groups is None else {"from_groups": groups}


def claim(
    engine: LeasedEngine,
    *,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
    lease_id: str | None = None,
    owner: str | None = None,
    sequential: bool = False,
    groups: Collection[str] | None = None,
) -> Exchange[Lease | None]:
    """Claim the oldest ready messages under a lease; return None when there are none within `wait`.

    lease, wait: seconds or timedelta. If `lease_id` exists, the caller takes that lease over: it gets the same messages
    under a new token, the former holder is fenced off, and one more delivery is counted. sequential: the caller works
    on the messages one by one, in order, and settles each before it begins the next; should the lease expire, only the
    message that was in work counts a failed delivery, and the others are released. groups: 1 to 100 groups; only
    their messages are claimed, and '' is those without a group; a lease that is taken over stays as it is. Raises
    LeaseAlreadySettled when that lease was acked as a whole, and ConfigurationError for `groups` where the queue has
    none.
    """
    wait_ms = milliseconds("wait", wait)
    chosen = None if groups is None else chosen_groups(groups)
    request = requested(engine, max_messages, lease, lease_id, owner, chosen)
    if sequential:
        request = request._replace(sequential=True)
    return (yield from grant(engine, request, wait_ms))


def grant(
    engine: LeasedEngine, request: LeaseRequest, wait_ms: int, expired: list[bytes] | None = None
) -> Exchange[Lease | None]:
    """Claim what `request` describes. Reclaim expired leases too; if `expired` is given, only add their ids to it."""
    try:
        if not engine.registered:
            engine.registered = yield from register(engine.name, DISCIPLINE)
        return (yield from _wait(engine, request, wait_ms, expired))
    except BaseException as error:
        _keep(engine, request, error)
        raise


def claim_next(
    engine: LeasedEngine,
    *,
    ack: Lease,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
    groups: Collection[str] | None = None,
) -> Exchange[Lease | None]:
    """Ack a whole lease and claim the next messages in one round trip. groups: as for `claim`.

    Raises LeaseLost when the lease to ack is lost; nothing is claimed then.
    """
    wait_ms = milliseconds("wait", wait)
    whole("max_messages", max_messages, minimum=1)
    request = _new(engine.keys.suffix, engine.lease_ms(lease), max_messages, owner_of("owner", ack.owner))
    if groups is not None:
        request = request._replace(groups=chosen_groups(groups))
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


def granted_at_once(engine: LeasedEngine, request: LeaseRequest) -> Exchange[Lease | None]:
    """Claim what `request` describes without waiting, and remember nothing about it."""
    return _wait(engine, request, 0)


def _ack_and_claim(
    engine: LeasedEngine, request: LeaseRequest, ack: Lease
) -> Exchange[tuple[list[str], list[bytes], list[bytes]]]:
    keys = engine.keys
    call = script(
        "leased/claim_next", keys, engine.settings, lease=keys.lease(request.id), acked_lease=keys.lease(ack.id),
        settled=keys.settled(ack.id), done=keys.done(ack.id), lease_id=request.id, acked_id=ack.id, nonce=request.nonce,
        lease_ms=request.lease_ms, max_messages=request.max_messages, owner=request.owner, token=token_of(ack),
        done_ttl_ms=engine.config.settled_ttl_ms if ack.named else 0, **request.chosen,
    )  # fmt: skip
    durable = engine.config.durability is not None
    call = confirming(engine, call) if durable else _reading(engine, request, call)
    with ack.state:
        reply, after = apart(call, (yield call))
        words = reply[0].decode().split(" ")
        if words[0] == "lost":
            raise engine.lost(ack)
        if words[0] == "ungrouped":
            raise ungrouped(engine)
        if words[0] not in {"claimed", "empty"}:
            raise errors.ScriptFailed(f"claim_next got {words[0]!r}")
        ack.state.settled = True
    engine.state(_ACK, int(words[-1]), ack)
    check(engine, f"acked lease {ack.id!r}", after)
    return words, reply[1], _envelopes(words, reply[2], None if durable else after)


def reclaim_all(engine: LeasedEngine, late: list[bytes]) -> Exchange[int]:
    """Reclaim the expired leases of a list, which has the earliest deadline first; return the number of messages.

    The list also names unfinished commits of stages; they are finished. It has OVERDUE if messages expired.
    """
    moved = 0
    for lease_id in reversed(late):  # each is requeued at the claim end, so the earliest comes last
        if lease_id == OVERDUE:
            moved += 1 + (yield from bury(engine))  # never 0: claims may have got nothing while there were too many
            continue
        do = finish if lease_id.startswith(COMMIT) else engine.reclaiming or reclaim
        moved += yield from do(engine, lease_id.decode())
    return moved


def _wait(
    engine: LeasedEngine, request: LeaseRequest, wait_ms: int, expired: list[bytes] | None = None
) -> Exchange[Lease | None]:
    """Claim, blocking on the wake list between attempts for `wait_ms` by the server's clock.

    A claim with a `lease_id` is sent only after the wait. Redis would run a pipelined claim even for a client that is
    terminating, and messages would stay leased to a run or stream that has been stopped.
    """
    until = block = 0
    while True:
        call = _call(engine, request, wait_ms, until)
        if block and request.mode == "named":
            yield Listen(("BLPOP", engine.keys.wake, blocks_for(block)), block)
            block = 0
        reply, listed = apart(call, (yield Wait(engine.keys.wake, block, call) if block else call))
        words, late = reply[0].decode().split(" ", 8), reply[1]
        if late and expired is not None:
            expired += [name for name in late if name != OVERDUE]
            late = [OVERDUE] if OVERDUE in late else []
        if words[0] in {"claimed", "taken"}:
            return (yield from _hand_over(engine, request, words, late, _envelopes(words, reply[2], listed)))
        if words[0] == "settled":
            raise errors.LeaseAlreadySettled(request.id, int(words[1]))
        if words[0] == "exhausted":
            yield from reclaim(engine, request.id, used_up=True)
            block = 0
            continue
        if words[0] == "ungrouped":
            raise ungrouped(engine)
        if words[0] == "outdated":
            raise errors.LeaseLost(request.id)
        if words[0] != "empty":
            raise errors.ScriptFailed(f"claim got {words[0]!r}")
        block, until = int(words[1]), int(words[2])
        yield from reclaim_all(engine, late)
        if not late and not block:
            return None
        if request.groups is not None:
            if block and len(words) > 3:
                yield from _await_news(engine, request.groups.encode().split(b"\0"), int(words[3]) + block, words[3:])
            block = 0
        elif len(words) > 3:
            yield Sleep(block / 1000)  # no message can be claimed earlier; an idle server ends a BLPOP up to 0.1 s late
            block = 0


def _await_news(engine: LeasedEngine, groups: list[bytes], until: int, seen: list[str]) -> Exchange[None]:
    """Wait until a claim of these groups may get messages, or until the timer is to be set, or the time is over.

    until: server time in ms. seen: server time, and the last entry of the stream of news by then. The ids of entries
    are times of the server, and show how long the next wait may be.
    """
    now, last = int(seen[0]), seen[1]
    while (block := until - now) > 0:
        words = ("XREAD", "COUNT", _NEWS, "BLOCK", block, "STREAMS", engine.keys.news, last)
        entries = entries_of((yield Listen(words, block)))
        told = [fields[1] for _, fields in entries]  # names, each before a zero byte; none in an entry for all
        named = {name for each in told for name in each.split(b"\0")[:-1]}
        # With as many entries as are kept, some may have been missed.
        if not entries or len(entries) >= _NEWS or not all(told) or not named.isdisjoint(groups):
            return
        last = text_of(entries[-1][0])
        now = int(last.partition("-")[0])


def _hand_over(
    engine: LeasedEngine, request: LeaseRequest, words: list[str], late: list[bytes], envelopes: list[bytes]
) -> Exchange[Lease]:
    """Complete a granted claim and return its lease. After an error, a later claim can retry the same id."""
    try:
        granted = yield from _granted(engine, request, words, envelopes)
        if request.sequential:
            yield script("leased/sequential", lease=engine.keys.lease(granted.id), token=token_of(granted))
        if late:
            yield from reclaim_all(engine, late)
    except errors.LeaseLost:
        raise
    except errors.RedisMessageQueueError:
        _remember(engine, request)
        raise
    return granted


def _granted(engine: LeasedEngine, request: LeaseRequest, words: list[str], envelopes: list[bytes]) -> Exchange[Lease]:
    if words[0] == "taken":
        return (yield from fetch(engine, taken_over(engine, request.id, " ".join(words[1:]))))
    token, deadline, taken, limit = words[1], words[2], int(words[3]), int(words[4])
    isolation = None if words[5] == "0" else isolation_of(words[5:7])
    granted = Lease(
        engine.keys.name, request.id, request.owner, taken, deadline_of(deadline), token,
        named=request.mode == "named", isolation=isolation, envelopes=envelopes or None,
    )  # fmt: skip
    try:
        if not envelopes and taken >= limit:  # before the claim is stated, because the journal takes the ids
            granted = yield from fetch(engine, granted, request.max_messages)
    finally:
        if not request.part:
            engine.state(_CLAIM, taken, granted, lease_ms=request.lease_ms)
    if isolation and not request.part:
        engine.state(Operation.ISOLATE, taken, granted, reason=str(isolation))
    if taken < limit:
        filled = yield from _fill(engine, granted, limit, request.chosen)
        if not request.part:
            engine.state(_CLAIM, filled.count - taken, granted.id)
        return filled
    return granted


def fetch(engine: LeasedEngine, granted: Lease, most: int = 0) -> Exchange[Lease]:
    """Read the messages of a lease that fits in one chunk, when they did not come with the reply to the claim.

    most: how many a new lease may hold; 0 for a lease that was taken over, which may be too large for LRANGE.
    """
    if granted.count > _INLINE:
        return granted
    if _PLAIN <= most <= _INLINE:
        (listed,) = yield Pipeline((Command(_list(engine, granted.id, most)),))
        if envelopes := _held(listed, token_of(granted), granted.count):
            return replace(granted, envelopes=envelopes)
    reply = yield read_call(engine.keys, granted.id, token_of(granted), 0, granted.count)
    complete = reply[0] == b"read" and not reply[3] and len(reply[4]) == granted.count
    return replace(granted, envelopes=reply[4]) if complete else granted


def _list(engine: LeasedEngine, lease_id: str, most: int) -> tuple[Encodable, ...]:
    """Return the command that reads a lease of at most `most` messages, and its head before them.

    The script would convert each message for Lua and back, which costs four times as much as this command.
    """
    return ("LRANGE", engine.keys.lease(lease_id), 0, most)


def _envelopes(words: list[str], batches: list[list[bytes]], listed: Any) -> list[bytes]:
    """Return the messages that came with the reply to a claim; [] if none did. listed: the reply to `_list`."""
    if listed and words[0] == "claimed":
        return _held(listed, words[1], int(words[3]))
    return list(chain.from_iterable(batches))


def _held(listed: Any, token: str, count: int) -> list[bytes]:
    """Return the messages that `_list` has read; [] if the reply does not prove that this token holds all of them."""
    if not isinstance(listed, list) or len(listed) != count + 1 or not listed[0].startswith(token.encode() + b" "):
        return []
    del listed[0]
    return listed


def _fill(engine: LeasedEngine, granted: Lease, limit: int, chosen: dict[str, str]) -> Exchange[Lease]:
    """Move the remaining messages into a large lease, chunk by chunk."""
    keys, count, token = engine.keys, granted.count, granted.token or ""
    while count < limit:
        reply = yield script(
            "leased/fill", keys, lease=keys.lease(granted.id), token=token, count=count, most=limit - count, **chosen
        )  # fmt: skip
        if reply == b"lost":
            raise engine.lost(granted)
        moved = int(reply.split()[1])
        if not moved:
            break
        count += moved
    if count == granted.count:
        return granted
    return replace(granted, count=count, envelopes=None)


def taken_over(engine: LeasedEngine, lease_id: str, rest: str, event: str = "taken over") -> Lease:
    """Return the lease that a script's reply to a takeover describes; emit the takeover, unless `event` is empty."""
    token, deadline, count, failures, most, takeovers, _, owner = rest.split(" ", 7)
    lease = Lease(
        engine.keys.name, lease_id, owner, int(count), deadline_of(deadline), token, int(takeovers),
        named=not lease_id.startswith("~"), isolation=isolation_of((failures, most)),
    )  # fmt: skip
    if event:
        engine.state(Operation.TAKEOVER, lease.count, lease, word=event)
    return lease


def isolation_of(words: Sequence[str | int]) -> Isolation | None:
    """Return the Isolation of a lease's messages, None when they are not isolated.

    words: from a script: in how many leases they failed together (0: not isolated), and how many one claim may take.
    """
    failures, most = map(int, words)
    return Isolation(failures, most) if failures else None


def requested(
    engine: LeasedEngine,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    lease_id: str | None = None,
    owner: str | None = None,
    groups: str | None = None,
) -> LeaseRequest:
    """Return the validated arguments of `claim`. A claim that got no reply is repeated under its id and nonce.

    One that named groups does not get what a claim of other groups may have been granted.
    """
    whole("max_messages", max_messages, minimum=1)
    lease_ms, owned = engine.lease_ms(lease), owner_of("owner", owner)
    if lease_id is not None:
        if check_name("lease_id", lease_id).startswith("~"):
            raise errors.ConfigurationError("lease_id must not begin with '~': such ids are made by the queue")
        secret = engine.unanswered.pop(lease_id, None)
        return LeaseRequest(
            lease_id, "named", secret or nonce(), lease_ms, max_messages, owned, again=secret is not None, groups=groups
        )
    for known in list(engine.unanswered):
        if (
            not known.startswith("~")
            or known.endswith(".parts")
            or (groups is not None and engine.chosen.get(known) != groups)
        ):
            continue
        if secret := engine.unanswered.pop(known, None):
            engine.chosen.pop(known, None)
            return LeaseRequest(known, "again", secret, lease_ms, max_messages, owned, again=True, groups=groups)
    request = _new(engine.keys.suffix, lease_ms, max_messages, owned)
    return request if groups is None else request._replace(groups=groups)


def _new(suffix: str, lease_ms: int | str, max_messages: int, owner: str) -> LeaseRequest:
    return LeaseRequest(anonymous_lease_id() + suffix, "new", nonce(), lease_ms, max_messages, owner)


def _call(engine: LeasedEngine, request: LeaseRequest, wait_ms: int, until: int) -> Call:
    keys = engine.keys
    if request.mode == "new" and request.groups is None:  # most claims by far, so this path merges no keys
        call = script(
            "leased/claim", keys, engine.settings, lease=keys.lease(request.id), lease_id=request.id,
            nonce=request.nonce, lease_ms=request.lease_ms, max_messages=request.max_messages, owner=request.owner,
            wait_ms=wait_ms, wait_end=until,
        )  # fmt: skip
        return _reading(engine, request, call)
    known: dict[str, Encodable] = {**request.chosen}
    if request.mode != "new":
        known["settled"] = keys.settled(request.id)
    if request.mode == "named":
        known["done"] = keys.done(request.id)
    call = script(
        "leased/claim", keys, engine.settings, lease=keys.lease(request.id), lease_id=request.id, nonce=request.nonce,
        lease_ms=request.lease_ms, max_messages=request.max_messages, owner=request.owner,
        wait_ms=wait_ms, wait_end=until, **known,
    )  # fmt: skip
    return _reading(engine, request, call) if request.mode == "new" else call


def _reading(engine: LeasedEngine, request: LeaseRequest, call: Call) -> Call:
    """Return a call that claims under a new id, followed by the command that reads many messages.

    The lease of another id may exist already, with more messages than one reply should have.
    """
    if _PLAIN <= request.max_messages <= _INLINE:
        return call._replace(then=_list(engine, request.id, request.max_messages))
    return call


def _keep(engine: LeasedEngine, request: LeaseRequest, error: BaseException) -> None:
    """Record a claim that got no reply, because it may have been granted.

    The next claim repeats it, or `close` releases its lease.
    """
    if isinstance(error, errors.LeaseLost | errors.LeaseAlreadySettled):
        return
    unsure = errors.QueueUnavailable | errors.NotDurable
    answered = isinstance(error, errors.RedisMessageQueueError) and not isinstance(error, unsure)
    if request.again or not answered:
        _remember(engine, request)


def _remember(engine: LeasedEngine, request: LeaseRequest) -> None:
    if request.part:  # its home is remembered
        return
    engine.unanswered[request.id] = request.nonce
    if request.groups is not None and request.mode != "named":
        engine.chosen[request.id] = request.groups


def ungrouped(engine: LeasedEngine) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        f"groups must be None: queue {engine.name!r} lets nobody choose groups, because it has none, or a rate;"
        " it needs queue.admin.configure(groups='fair', reset=['rate', 'group_rate']), or"
        f" `rmq configure {engine.name} groups=fair`"
    )


def owner_of(parameter: str, value: str | None) -> str:
    """Return an owner in the form that the scripts expect: '' for none."""
    if value is None or value == "":
        return ""
    return check_name(parameter, value)


def deadline_of(text: str) -> int | None:
    return None if "inf" in text else int(text)


def adopt(
    engine: LeasedEngine,
    lease_id: str,
    *,
    owner: str | None = None,
    if_owner: str | None = None,
    lease: timedelta | float | None = None,
) -> Exchange[Lease]:
    """Take a lease over by its id alone; its former holder is fenced off.

    owner: the new owner; None keeps the recorded one. When the owner stays the same, this is a hand-over and counts no
    delivery. if_owner: adopt it only when this owner holds it, else raise LeaseOwnedByOther. Raises LeaseLost when no
    lease has this id or its deliveries are used up, LeaseAlreadySettled when it was acked as a whole.
    """
    handed = owner is None or owner == if_owner
    return (yield from seize(engine, lease_id, owner, if_owner, lease, event="handed over" if handed else "taken over"))


def seize(
    engine: LeasedEngine,
    lease_id: str,
    owner: str | None,
    if_owner: str | None,
    lease: timedelta | float | None = None,
    *,
    event: str = "",
) -> Exchange[Lease]:
    """Adopt a lease; `event` is what the journal calls that, and no takeover is emitted without one."""
    new, expected = owner_of("owner", owner), owner_of("if_owner", if_owner)
    lease_ms, name = engine.lease_ms(lease), check_name("lease_id", lease_id)
    secret = engine.unanswered.get(name) or nonce()
    reply = yield adoption(
        engine, name, nonce=secret, lease_ms=lease_ms, set_owner=_flag(owner), owner=new,
        required=_flag(if_owner), required_owner=expected,
    )  # fmt: skip
    verdict, _, rest = reply.decode().partition(" ")
    if verdict != "owned":
        engine.unanswered.pop(name, None)
    if verdict == "taken":
        return taken_over(engine, lease_id, rest, event)
    if verdict == "settled":
        raise errors.LeaseAlreadySettled(lease_id, int(rest.split(" ")[0]))
    if verdict == "owned":
        raise errors.LeaseOwnedByOther(lease_id, f"it is owned by {rest!r}, not by {if_owner!r}")
    if verdict == "exhausted":
        yield from reclaim(engine, lease_id, used_up=True)
        raise errors.LeaseLost(lease_id, "its deliveries are used up")
    raise errors.LeaseLost(lease_id, "there is no lease of this id")


def join(engine: LeasedEngine, lease_id: str) -> Exchange[Lease]:
    """Return a lease with its holder's token, for a process that works for the holder; the holder keeps the lease.

    The caller must make sure that it settles messages only on behalf of the holder. Only the holder ends the
    lease, even when none of its messages is left. Raises LeaseLost when no lease has this id.
    """
    name = check_name("lease_id", lease_id)
    reply = yield script("leased/join", engine.keys, lease=engine.keys.lease(name), lease_id=name)
    if reply is None:
        raise errors.LeaseLost(lease_id, "there is no lease of this id")
    token, takeovers, owner, count, deadline = reply
    lease = Lease(
        engine.keys.name, lease_id, owner.decode(), count, deadline_of(deadline.decode()), token.decode(), takeovers,
        named=not lease_id.startswith("~"),
    )  # fmt: skip
    lease.state.joined = True
    return lease


def reenter(engine: LeasedEngine, lease_id: str) -> Exchange[Lease | None]:
    """Adopt the lease of an unanswered claim; return None when it was not granted or another consumer holds it now."""
    secret = engine.unanswered[lease_id]
    reply = yield adoption(
        engine, lease_id, nonce=secret, lease_ms=engine.lease_ms(None), set_owner="0", owner="",
        required="2", required_owner="",
    )  # fmt: skip
    verdict, _, rest = reply.decode().partition(" ")
    return taken_over(engine, lease_id, rest) if verdict == "taken" else None


def adoption(engine: LeasedEngine, lease_id: str, **given: Encodable) -> Call:
    keys = engine.keys
    return script(
        "leased/adopt", keys, engine.settings, lease=keys.lease(lease_id), settled=keys.settled(lease_id),
        done=keys.done(lease_id), lease_id=lease_id, **given,
    )  # fmt: skip


def _flag(value: Any) -> str:
    return "0" if value is None else "1"


_REMEMBERED_MS = 30 * 86_400_000


def register_consumer(
    engine: LeasedEngine, consumer: str, *, run: str, stream: str, alive: timedelta | float, finished: int = 0
) -> Exchange[ConsumerRegistration]:
    """Give the name of a consumer to a run. Redis keeps the record for 30 days.

    alive: for how long (seconds or timedelta) the run has the name without another call. finished: the number of the
    last finished batch; Redis never lowers it. Raises ConsumerTaken while a run of another stream has the name.
    """
    return (yield from _write(engine, consumer, (run, stream), alive, finished, "1"))


def renew_consumer(
    engine: LeasedEngine, consumer: str, *, run: str, stream: str, alive: timedelta | float, finished: int = 0
) -> Exchange[ConsumerRegistration]:
    """Keep the name of a consumer; the arguments are those of `register_consumer`.

    Raises ConsumerTaken when another run has the name by now.
    """
    return (yield from _write(engine, consumer, (run, stream), alive, finished, "0"))


def _write(
    engine: LeasedEngine, consumer: str, who: tuple[str, str], alive: timedelta | float, finished: int, enter: str
) -> Exchange[ConsumerRegistration]:
    run, stream = check_name("run", who[0]), check_name("stream", who[1])
    reply = yield script(
        "leased/register_consumer", consumer=engine.keys.consumer(check_name("consumer", consumer)), run=run,
        stream=stream, alive_ms=milliseconds("alive", alive, minimum=0.001), remembered_ms=_REMEMBERED_MS,
        finished=whole("finished", finished), enter=enter,
    )  # fmt: skip
    words = reply.decode().split(" ", 2)
    if words[0] == "taken":
        raise errors.ConsumerTaken(consumer, int(words[1]) / 1000)
    if words[0] != "entered":
        raise errors.ScriptFailed(f"register_consumer got {words[0]!r}")
    before, _, before_finished = words[2].rpartition(" ")
    return ConsumerRegistration(int(words[1]), None if before == "-" else before, int(before_finished))
