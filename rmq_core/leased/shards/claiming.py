"""Claims from shards: a few messages from one of them, and any other lease in parts; waits for messages of any."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from rmq_core import errors
from rmq_core.envelope.codec import anonymous_lease_id, nonce
from rmq_core.events import Operation
from rmq_core.exchange import Exchange, Listen, blocks_for, text_of
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.registry import ready
from rmq_core.leased import claiming
from rmq_core.leased.claiming import LeaseRequest, owner_of, ungrouped
from rmq_core.leased.config import DISCIPLINE
from rmq_core.leased.inspecting import poll_backlog
from rmq_core.leased.settling import give_back
from rmq_core.leased.shards.publishing import knock
from rmq_core.leased.shards.reclaiming import finish_parts, reclaim_home
from rmq_core.leased.shards.state import FIRST, HOME, Sharded, checked, generation, part_id, part_ms, sharded
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease
from rmq_core.policy import milliseconds, whole
from rmq_core.reports import Backlog

_FEW = _AT_HAND = 4000
"""So many messages come from one shard, if that has some; and so many come with a claim in parts."""
_LOOK_MS = 5000
"""The interval at which a waiting consumer polls all shards, in case a notification is lost."""


class _Wanted(NamedTuple):
    """The arguments of a claim. lease_id: None for one in a single shard."""

    max_messages: int
    lease: timedelta | float | None
    owner: str | None
    sequential: bool
    lease_id: str | None


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
    """Claim as `leased.claiming.claim` does. Few messages without a `lease_id` come from one shard, perhaps fewer."""
    wait_ms = milliseconds("wait", wait)
    if groups is not None:
        raise ungrouped(engine)
    whole("max_messages", max_messages, minimum=1)
    if lease_id is not None and check_name("lease_id", lease_id).startswith("~"):
        raise errors.ConfigurationError("lease_id must not begin with '~': such ids are made by the queue")
    if lease_id is None and max_messages > _FEW:
        lease_id = _in_parts(engine)
    yield from ready(engine, DISCIPLINE)
    wanted = _Wanted(max_messages, lease, owner, sequential, lease_id)
    return (yield from _waiting(engine, wanted, wait_ms))


def claim_next(
    engine: LeasedEngine,
    *,
    ack: Lease,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
    groups: Collection[str] | None = None,
) -> Exchange[Lease | None]:
    """Ack a whole lease and claim the next messages: in one round trip if its shard has some."""
    from rmq_core.leased.shards import settling  # it imports this module

    shards, wait_ms = sharded(engine), milliseconds("wait", wait)
    if groups is not None:
        raise ungrouped(engine)
    found = None
    if ack.parts or ack.named or max_messages > _FEW:
        yield from settling.ack(engine, ack)
    else:
        name = shards.of_lease(ack.id)
        exchange = claiming.claim_next(shards.engines[name], ack=ack, max_messages=max_messages, lease=lease)
        found = yield from shards.at(name, exchange)
    if found is not None:
        return found
    wanted = _Wanted(max_messages, lease, ack.owner or None, False, None)
    if max_messages > _FEW:
        wanted = wanted._replace(lease_id=_in_parts(engine))
    return (yield from _waiting(engine, wanted, wait_ms))


def _in_parts(engine: LeasedEngine) -> str:
    """Return an id for a claim in parts: that of one without a reply, which is repeated, or a new one."""
    return next((each for each in engine.unanswered if each.endswith(HOME)), None) or anonymous_lease_id() + HOME


def adopt(
    engine: LeasedEngine,
    lease_id: str,
    *,
    owner: str | None = None,
    if_owner: str | None = None,
    lease: timedelta | float | None = None,
) -> Exchange[Lease]:
    """Take over a lease with all of its parts, as `leased.claiming.adopt` does."""
    shards, name = sharded(engine), sharded(engine).of_lease(check_name("lease_id", lease_id))
    if name != FIRST:
        exchange = claiming.adopt(shards.engines[name], lease_id, owner=owner, if_owner=if_owner, lease=lease)
        return (yield from shards.at(name, exchange))
    secret = engine.unanswered.get(lease_id) or nonce()
    verdict, rest = yield from _seize(
        engine, lease_id, secret, engine.lease_ms(lease), "1" if owner is not None else "0", owner_of("owner", owner),
        "1" if if_owner is not None else "0", owner_of("if_owner", if_owner),
    )  # fmt: skip
    if verdict != "owned":
        engine.unanswered.pop(lease_id, None)
    if verdict == "taken":
        home = claiming.taken_over(engine, lease_id, rest, "")
        taken = yield from taken_parts(shards, home)
        word = "handed over" if owner is None or owner == if_owner else "taken over"
        engine.state(Operation.TAKEOVER, taken.count, taken, word=word)
        _begin_parts(taken)
        return taken
    if verdict == "settled":
        yield from finish_parts(engine, lease_id)
        raise errors.LeaseAlreadySettled(lease_id, int(rest.split(" ")[0]))
    if verdict == "owned":
        raise errors.LeaseOwnedByOther(lease_id, f"it is owned by {rest!r}, not by {if_owner!r}")
    if verdict == "exhausted":
        yield from reclaim_home(engine, lease_id, "0")
        raise errors.LeaseLost(lease_id, "its deliveries are used up")
    raise errors.LeaseLost(lease_id, "there is no lease of this id")


def join(engine: LeasedEngine, lease_id: str) -> Exchange[Lease]:
    """Return a lease, with all of its parts, for a process that works for the holder."""
    shards, name = sharded(engine), sharded(engine).of_lease(check_name("lease_id", lease_id))
    if name != FIRST:
        return (yield from shards.at(name, claiming.join(shards.engines[name], lease_id)))
    home = yield from claiming.join(engine, lease_id)
    parts: dict[str, Lease] = {}
    for at, found in (
        yield from shards.across(shards.engines, lambda _, one: claiming.join(one, part_id(lease_id)))
    ).items():
        if isinstance(found, Lease) and _is_of(found, home):
            parts[at] = found
        elif isinstance(found, Exception) and not isinstance(found, errors.LeaseLost):
            raise found
    return _whole(home, parts)


def _is_of(part: Lease, home: Lease) -> bool:
    return str(part.token).endswith("." + generation(str(home.token)))


def _waiting(engine: LeasedEngine, wanted: _Wanted, wait_ms: int) -> Exchange[Lease | None]:
    """Claim; between attempts, wait at the first shard until a publisher says which shard has messages."""
    shards = sharded(engine)
    found = yield from _attempt(engine, wanted, (shards.next_claim(),))
    if found is None and not wait_ms and wanted.lease_id is None:
        return (yield from _attempt(engine, wanted, _fullest((yield from polled(shards)))))
    if found is not None or not wait_ms:
        return found
    keys, waiter, until, hint, soon = engine.keys, f"w{nonce()}", 0, FIRST, False
    while True:
        shards = sharded(engine)
        now = yield script("leased/park", keys, waiter=waiter, block_ms=min(_LOOK_MS, wait_ms))
        until = until or now + wait_ms
        block = min(_LOOK_MS, until - now)
        if block <= 0:
            break
        seen = yield from polled(shards, block + 2000, "@")
        some = _fullest({name: each for name, each in seen.items() if not each[0].paused})
        if not some:
            due_ms = min((int(due * 1000) + 1 for _, due in seen.values() if due is not None), default=block)
            soon, block = due_ms < block, max(2, min(block, due_ms))
            reply = yield Listen(("BLPOP", keys.knocks, blocks_for(block)), block)
            some = [text_of(reply[1])] if reply else []
        if some:
            hint = some[0]
            found = yield from _attempt(engine, wanted, some)
        if found is not None:
            break
    yield script("leased/park", keys, waiter=waiter, block_ms=0)
    if found is not None:
        yield from _pass_on(sharded(engine), hint, soon)
    return found


def _pass_on(shards: Sharded, name: str, soon: bool) -> Exchange[None]:
    """Wake another consumer if the shard has more messages, or if this one handled the timer for the next due time."""
    if not soon and name in shards.engines:
        seen = (yield from shards.across((name,), lambda _, one: poll_backlog(one), hurry=True))[name]
        soon = isinstance(seen, Exception) or seen[0].ready > 0
    if soon:
        yield from knock(shards, name)


def _fullest(seen: Mapping[str, tuple[Backlog, float | None]]) -> list[str]:
    """Return the shards that have messages, the fullest first."""
    return sorted((name for name, (each, _) in seen.items() if each.ready), key=lambda name: -seen[name][0].ready)


def _attempt(engine: LeasedEngine, wanted: _Wanted, names: Iterable[str]) -> Exchange[Lease | None]:
    """Claim from the first of these shards that has something; a lease in parts from all shards."""
    if wanted.lease_id is not None:
        return (yield from _from_many(engine, sharded(engine), wanted, wanted.lease_id))
    for name in names:
        if name in sharded(engine).engines:
            found = yield from _claimed(sharded(engine), name, wanted)
            if isinstance(found, Lease):
                return found
    return None


def _claimed(shards: Sharded, name: str, wanted: _Wanted) -> Exchange[Any]:
    """Claim from a shard without waiting for one that does not answer; return the error then."""

    def one(_: str, engine: LeasedEngine) -> Exchange[Lease | None]:
        return claiming.claim(
            engine, max_messages=wanted.max_messages, lease=wanted.lease, owner=wanted.owner,
            sequential=wanted.sequential,
        )  # fmt: skip

    found = (yield from shards.across((name,), one, hurry=len(shards.engines) > 1))[name]
    if isinstance(found, Exception) and not isinstance(found, errors.QueueUnavailable):
        raise found
    return found


def looked(shards: Sharded) -> Exchange[Mapping[str, Backlog]]:
    """Return the backlogs of the shards that answer; reclaim expired leases. Raises the error if none answers."""
    return {name: seen for name, (seen, _) in (yield from polled(shards)).items()}


def polled(
    shards: Sharded, notify_ms: int = 0, watcher: str = "*"
) -> Exchange[dict[str, tuple[Backlog, float | None]]]:
    """Return backlog and due time of the shards that answer; reclaim expired leases. Raises the error if none does.

    notify_ms, watcher: as for `glance`.
    """
    some = len(shards.engines) > 1

    def look(_: str, one: LeasedEngine) -> Exchange[tuple[Backlog, float | None]]:
        return poll_backlog(one, notify_ms, watcher=watcher)

    while True:
        before = shards.taken_back
        found = yield from shards.across(shards.engines, look, hurry=some)
        if shards.taken_back == before:
            return {name: each for name, each in found.items() if not isinstance(each, Exception)} or checked(found)


def _from_many(engine: LeasedEngine, shards: Sharded, wanted: _Wanted, lease_id: str) -> Exchange[Lease | None]:
    """Claim under an id, in parts: take the lease over if it exists, else open it."""
    secret = engine.unanswered.pop(lease_id, None) or nonce()
    lease_ms, owner = engine.lease_ms(wanted.lease), owner_of("owner", wanted.owner)
    try:
        verdict, rest = yield from _seize(engine, lease_id, secret, lease_ms, "2", owner)
        if verdict == "exhausted":
            yield from reclaim_home(engine, lease_id, "0")
            verdict = "lost"
        if verdict == "settled":
            yield from finish_parts(engine, lease_id)
            raise errors.LeaseAlreadySettled(lease_id, int(rest.split(" ")[0]))
        if verdict == "taken":
            home = claiming.taken_over(engine, lease_id, rest, "")
            taken = yield from taken_parts(shards, home, read=True)
            if taken.count:
                engine.state(Operation.TAKEOVER, taken.count, taken, word="taken over")
                _begin_parts(taken)
                return taken
        else:
            home = Lease(engine.name, lease_id, owner, 0, None, None)
        return (yield from _opened(engine, shards, wanted, home, secret))
    except BaseException as error:
        if not isinstance(error, errors.LeaseLost | errors.LeaseAlreadySettled | errors.ConfigurationError):
            engine.unanswered[lease_id] = secret
        raise


def _opened(engine: LeasedEngine, shards: Sharded, wanted: _Wanted, home: Lease, secret: str) -> Exchange[Lease | None]:
    """Give a lease messages of the shards that have some. home: without a token if there is no such lease yet."""
    seen = yield from looked(shards)
    shares, left = dict[str, int](), wanted.max_messages
    for name in sorted(seen, key=lambda name: -seen[name].ready):
        if share := min(seen[name].ready, left):
            shares[name] = share
            left -= share
        if wanted.sequential:
            break  # one message is in work at a time, so only one part may have one
    if not shares and home.token is None:
        return None
    if home.token is None:
        keys = engine.keys
        reply = yield script(
            "leased/anchor", keys, lease=keys.lease(home.id), done=keys.done(home.id), parts=keys.parts(home.id),
            lease_id=home.id, nonce=secret, lease_ms=engine.lease_ms(wanted.lease), owner=home.owner,
        )  # fmt: skip
        words = text_of(reply).split(" ")
        if words[0] == "held":  # somebody else opened it just now
            return (yield from _from_many(engine, shards, wanted, home.id))
        if words[0] == "unfinished":  # its record that it was acked is kept for less time, or not at all
            yield from finish_parts(engine, home.id, required=True)
            return (yield from _from_many(engine, shards, wanted, home.id))
        if words[0] == "settled":
            raise errors.LeaseAlreadySettled(home.id, int(words[1]))
        if words[0] != "claimed":
            raise errors.ScriptFailed(f"anchor got {words[0]!r}")
        home = replace(
            home, token=words[1], deadline_ms=claiming.deadline_of(words[2]), named=not home.id.startswith("~")
        )
    found = yield from shards.across(
        shares, lambda name, one: _part(one, home, shares[name], part_ms(engine.lease_ms(wanted.lease)))
    )
    parts = {name: each for name, each in found.items() if isinstance(each, Lease)}
    for each in found.values():
        if isinstance(each, Exception) and not isinstance(each, errors.QueueUnavailable | errors.LeaseLost):
            raise each
    parts = yield from _unmixed(shards, parts)
    if not parts:
        yield from give_back(engine, home, "release")
        return None
    if wanted.sequential:
        ((name, part),) = parts.items()
        yield from shards.at(name, _sequential(shards.engines[name], part))
    opened = _whole(home, parts)
    engine.state(Operation.CLAIM, opened.count, opened, lease_ms=engine.lease_ms(wanted.lease))
    _begin_parts(opened)
    if opened.isolation:
        engine.state(Operation.ISOLATE, opened.count, opened, reason=str(opened.isolation))
    return opened


def _begin_parts(lease: Lease) -> None:
    """Note when the work on the parts began: parts that are nacked count for how long it took."""
    for _, part in lease.parts:
        part.state.began = lease.state.began


def _sequential(engine: LeasedEngine, part: Lease) -> Exchange[None]:
    yield script("leased/sequential", lease=engine.keys.lease(part.id), token=part.token)


def _part(engine: LeasedEngine, home: Lease, share: int, lease_ms: int) -> Exchange[Lease | None]:
    """Claim a part of a lease in a shard, which has messages; None if others took them."""
    request = LeaseRequest(part_id(home), "again", generation(str(home.token)), lease_ms, share, home.owner, part=True)
    return (yield from claiming.granted_at_once(engine, request))


def _unmixed(shards: Sharded, parts: dict[str, Lease]) -> Exchange[dict[str, Lease]]:
    """Release parts with isolated messages, which are in a lease of their own; keep one if there are no others."""
    apart = [name for name, part in parts.items() if part.isolation]
    if apart and len(parts) == len(apart):
        del apart[0]
    for name in apart:
        yield from shards.at(name, give_back(shards.engines[name], parts[name], "release"))
    return {name: part for name, part in parts.items() if name not in apart}


def _seize(
    engine: LeasedEngine,
    lease_id: str,
    secret: str,
    lease_ms: int | str,
    set_owner: str,
    owner: str,
    required: str = "0",
    required_owner: str = "",
) -> Exchange[tuple[str, str]]:
    """Take over a lease that exists. Return the first word of the reply, and the rest."""
    reply = yield claiming.adoption(
        engine, lease_id, nonce=secret, lease_ms=lease_ms, set_owner=set_owner, owner=owner, required=required,
        required_owner=required_owner,
    )  # fmt: skip
    verdict, _, rest = text_of(reply).partition(" ")
    return verdict, rest


def taken_parts(shards: Sharded, home: Lease, *, read: bool = False) -> Exchange[Lease]:
    """Take over the parts of a lease whose home was taken over; return the whole. read: with messages, if not many."""

    def one(_: str, engine: LeasedEngine) -> Exchange[Lease | None]:
        reply = yield claiming.adoption(
            engine, part_id(home), nonce=generation(str(home.token)), lease_ms=part_ms(engine.lease_ms(None)),
            set_owner="1", owner=home.owner, required="0", required_owner="", max_deliveries=0,
            takeovers=home.takeovers,
        )  # fmt: skip
        verdict, _, rest = text_of(reply).partition(" ")
        if verdict == "outdated":
            raise errors.LeaseLost(home.id)
        if verdict != "taken":
            return None
        part = claiming.taken_over(engine, part_id(home), rest, "")
        return (yield from claiming.fetch(engine, part)) if read else part

    found = checked((yield from shards.across(shards.engines, one)))
    parts = {name: part for name, part in found.items() if part is not None}
    if read and home.count and not parts:
        return (yield from claiming.fetch(shards.base, home))
    return _whole(home, parts)


def _whole(home: Lease, parts: Mapping[str, Lease]) -> Lease:
    """Return the lease that has these parts."""
    if not parts:
        return home  # it was opened before the queue had shards, or others gave back all parts
    pieces, envelopes = list(parts.values()), None
    count = sum(part.count for part in pieces)
    if count <= _AT_HAND and all(part.complete for part in pieces):
        envelopes = [envelope for part in pieces for envelope in part.envelopes or ()]
    isolation = next((part.isolation for part in pieces if part.isolation), None)
    slim = tuple((name, replace(part, envelopes=None)) for name, part in parts.items())  # pickled only once
    found = replace(home, count=count, parts=slim, envelopes=envelopes, isolation=isolation)
    for part in pieces:
        part.state.joined = found.state.joined
    return found
