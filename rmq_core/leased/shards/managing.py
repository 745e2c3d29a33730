"""What operators do with a queue in shards: one shard after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from rmq_core.envelope.export_record import StoredPage
from rmq_core.envelope.matching import Match
from rmq_core.envelope.payloads import key_digest
from rmq_core.errors import ConfigurationError, LeaseLost, LeaseOwnedByOther, RedisMessageQueueError
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.settling import Reclaimed, cause_of, end_each, expired
from rmq_core.kernel.transfer import Cursor
from rmq_core.leased import managing, transfer
from rmq_core.leased.claiming import owner_of, reenter
from rmq_core.leased.settling import NOW
from rmq_core.leased.shards import inspecting as looks
from rmq_core.leased.shards import settling
from rmq_core.leased.shards.claiming import taken_parts
from rmq_core.leased.shards.publishing import home_of, knock, learn
from rmq_core.leased.shards.reclaiming import is_home, reclaim_home, seized
from rmq_core.leased.shards.resharding import leave
from rmq_core.leased.shards.state import FIRST, PART, checked, sharded
from rmq_core.leased.state import LeasedEngine
from rmq_core.policy import whole
from rmq_core.reports import ReasonGroup, SearchPage, SettleReport

Operation = Callable[..., Exchange[Any]]


def total_of(operation: Operation) -> Operation:
    """Return an operation that does this in every shard and returns the sum."""

    def run(engine: LeasedEngine, /, *args: Any, **kwargs: Any) -> Exchange[int]:
        shards, total = sharded(engine), 0
        for name, one in shards.engines.items():
            total += yield from shards.at(name, operation(one, *args, **kwargs))
        return total

    return run


def redrive(engine: LeasedEngine, max_messages: int | None = None, **kwargs: Any) -> Exchange[int]:
    """Move the oldest dead letters of each shard back to ready."""
    shards, total = sharded(engine), 0
    if max_messages is not None:
        whole("max_messages", max_messages, minimum=1)
    for name, one in shards.engines.items():
        left = None if max_messages is None else max_messages - total
        if left is None or left > 0:
            total += yield from shards.at(name, managing.redrive(one, left, **kwargs))
    return total


def found_first(operation: Operation, found: Callable[[Any], bool] = bool) -> Operation:
    """Return an operation that asks one shard after the other, until one has found something."""

    def run(engine: LeasedEngine, /, *args: Any, **kwargs: Any) -> Exchange[Any]:
        shards, result = sharded(engine), None
        for name, one in shards.engines.items():
            result = yield from shards.at(name, operation(one, *args, **kwargs))
            if found(result):
                break
        return result

    return run


def everywhere(operation: Operation) -> Operation:
    """Return an operation that does this in every shard."""

    def run(engine: LeasedEngine, /, *args: Any, **kwargs: Any) -> Exchange[None]:
        shards = sharded(engine)
        for name, one in shards.engines.items():
            yield from shards.at(name, operation(one, *args, **kwargs))

    return run


def waking(operation: Operation) -> Operation:
    """Return an operation that makes messages ready, and wakes a consumer that waits for messages of any shard."""

    def run(engine: LeasedEngine, /, *args: Any, **kwargs: Any) -> Exchange[Any]:
        result = yield from operation(engine, *args, **kwargs)
        yield from knock(sharded(engine), FIRST)
        return result

    return run


def by_key(operation: Operation) -> Operation:
    """Return an operation that asks the shards to which a deduplication key leads, and led before."""

    def run(engine: LeasedEngine, /, dedup_key: str | bytes) -> Exchange[Any]:
        shards, result, digest = sharded(engine), None, key_digest(dedup_key)
        maps = (shards.map.names, *(names for _, names in shards.map.former))
        for name in dict.fromkeys(home_of(digest, names) for names in maps):
            if name in shards.engines:
                found = yield from shards.at(name, operation(shards.engines[name], dedup_key))
                result = result or found
        return result

    return run


def release_lease(engine: LeasedEngine, lease_id: str, *, if_owner: str | None = None) -> Exchange[SettleReport]:
    """Release a lease by its id alone, with all of its parts, as `leased.managing.release_lease` does."""
    shards, name = sharded(engine), sharded(engine).of_lease(check_name("lease_id", lease_id))
    if name != FIRST:
        return (yield from shards.at(name, managing.release_lease(shards.engines[name], lease_id, if_owner=if_owner)))
    required = "0" if if_owner is None else "1"
    home = yield from seized(engine, lease_id, required, owner_of("if_owner", if_owner))
    if isinstance(home, str):
        raise LeaseOwnedByOther(lease_id, f"it is owned by {home!r}, not by {if_owner!r}")
    if home is None:
        return (yield from expired(Reclaimed(), lease_id, if_owner, engine.keys.done(lease_id)))
    return (yield from settling.give_back(engine, shards, (yield from taken_parts(shards, home)), "release", NOW, None))


def release_leases(engine: LeasedEngine, owner: str) -> Exchange[SettleReport]:
    """Release all leases of an owner, each with all of its parts, as `leased.managing.release_leases` does."""
    held = yield from looks.held_by(engine, owner)
    return (yield from end_each(held, partial(release_lease, engine, if_owner=owner)))


def expire_leases(engine: LeasedEngine, owner: str, *, reason: str | None = None) -> Exchange[SettleReport]:
    """End all leases of an owner, each with all of its parts, as if their deadlines had passed."""
    held = yield from looks.held_by(engine, owner)
    return (yield from end_each(held, partial(expire_lease, engine, if_owner=owner, reason=reason)))


def release_unanswered(engine: LeasedEngine) -> Exchange[None]:
    """Release the leases of claims whose reply never arrived."""
    shards = sharded(engine)
    found = yield from shards.across(shards.others, lambda _, one: managing.release_unanswered(one))
    for lease_id in [each for each in engine.unanswered if is_home(each)]:
        home = yield from reenter(engine, lease_id)
        if home is not None:
            with suppress(LeaseLost):
                lease = yield from taken_parts(shards, home)
                yield from settling.give_back(engine, shards, lease, "release", NOW, None)
        engine.unanswered.pop(lease_id, None)
    yield from managing.release_unanswered(engine)
    checked(found)


def search(engine: LeasedEngine, target: str, where: Match, *, after: str | None = None) -> Exchange[SearchPage]:
    """Look through one page of the messages of a shard; the shards are searched one after the other."""
    shards = sharded(engine)
    names = list(shards.engines)
    name, _, at = (after or f"{FIRST}/").partition("/")
    if name not in names:
        raise ConfigurationError(f"after must be what the last step returned, not {after!r}")
    page = yield from shards.at(name, managing.search(shards.engines[name], target, where, after=at or None))
    if page.after is not None:
        return page._replace(after=f"{name}/{page.after}")
    rest = names[names.index(name) + 1 :]
    return page._replace(after=f"{rest[0]}/" if rest else None)


def dead_reasons(engine: LeasedEngine, **kwargs: Any) -> Exchange[list[ReasonGroup]]:
    """Group all dead letters by the reasons of their failures, the largest group first."""
    shards, found = sharded(engine), dict[str, ReasonGroup]()
    for name, one in shards.engines.items():
        for each in (yield from shards.at(name, managing.dead_reasons(one, **kwargs))):
            known = found.get(each.reason)
            found[each.reason] = each if known is None else replace(known, count=known.count + each.count)
    return sorted(found.values(), key=lambda each: -each.count)


def expire_lease(
    engine: LeasedEngine, lease_id: str, *, if_owner: str | None = None, reason: str | None = None
) -> Exchange[SettleReport]:
    """End a lease as if its deadline had passed, with all of its parts."""
    shards, name = sharded(engine), sharded(engine).of_lease(check_name("lease_id", lease_id))
    if name != FIRST:
        one = managing.expire_lease(shards.engines[name], lease_id, if_owner=if_owner, reason=reason)
        return (yield from shards.at(name, one))
    required = "0" if if_owner is None else "1"
    done = yield from reclaim_home(engine, lease_id, required, owner_of("if_owner", if_owner), cause_of(reason))
    return (yield from expired(done, lease_id, if_owner, engine.keys.done(lease_id)))


def unregister(engine: LeasedEngine) -> Exchange[None]:
    """Remove an empty queue from the list of queues, and what each shard knows of it, as `leased.managing.unregister`.

    The map says first that the queue leaves. A shard that has been left refuses all publishers; one that has messages
    for the queue then completes a change to a newer map, as whoever finds a change that has not ended. So the first
    shard, which is left last, shows by its map whether any shard may have accepted messages since it was left.
    """
    now = yield from looks.stats(engine)
    managing.check_held(engine, (now.ready - now.isolated, now.isolated, now.delayed, now.leases, now.dead, 0, 0))
    engine.keys.leaving = yield from leave(engine)
    shards, total = sharded(engine), [0] * len(managing.HELD)
    try:
        for name, one in shards.others.items():
            held = yield from shards.at(name, _left(one))
            total = [sum(pair) for pair in zip(total, held, strict=True)]
        managing.check_held(engine, total)
        managing.check_left(engine, (yield from managing.left(engine)))
    except RedisMessageQueueError:
        with suppress(RedisMessageQueueError):  # then the next publisher does it
            yield from learn(engine)
        raise
    engine.take(None)


def _left(engine: LeasedEngine) -> Exchange[list[int]]:
    held: list[int] = yield script("leased/unregister", engine.keys, name=engine.name, leaving="-")
    return held


def export_page(engine: LeasedEngine, state: str, cursor: Cursor = ()) -> Exchange[StoredPage]:
    """Return a page of the stored messages of a shard, one shard after the other, as there were at the first page."""
    shards = sharded(engine)
    (name, *rest), inner = cursor or (tuple(shards.engines), ())
    page = StoredPage([], None)
    if name in shards.engines:  # else it was empty, and is no longer a shard
        page = yield from shards.at(name, transfer.export_page(shards.engines[name], state, inner))
    if state == "leased":
        page = page._replace(messages=[one._replace(lease=_of_part(one.lease)) for one in page.messages])
    if page.cursor is not None:
        return page._replace(cursor=((name, *rest), page.cursor))
    return page._replace(cursor=(tuple(rest), ()) if rest else None)


def _of_part(lease_id: str | None) -> str | None:
    return lease_id and lease_id.removeprefix(PART)


def refused(what: str, instead: str = "use a queue in one slot") -> Operation:
    """Return an operation that refuses what is not possible over several shards."""

    def run(engine: LeasedEngine, /, *_: Any, **__: Any) -> Exchange[None]:
        yield from ()
        raise ConfigurationError(
            f"{what} is not possible in queue {engine.name!r}, because it is stored in shards: {instead}"
        )

    return run


def unstaged(engine: LeasedEngine, /, *_: Any, **__: Any) -> Exchange[None]:
    """Refuse to stage messages: no single step publishes in several slots."""
    yield from ()
    raise ConfigurationError(
        f"messages cannot be staged for queue {engine.name!r}, because it is stored in shards, and no step publishes in"
        " several slots at once: publish them with publish_many, or in Spark with the option delivery=direct"
    )
