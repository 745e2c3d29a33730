"""Inspect or count many queues of one server at once, in few writes, without claiming anything.

Ten thousand queues take seconds one by one; here they share calls and writes. On a cluster the queues are in different
slots, so each queue has calls of its own. A queue that cannot be read has its error in place of its numbers, so that it
hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from rmq_core.admin.history import flush
from rmq_core.errors import WrongKeyType
from rmq_core.exchange import Call, Exchange, Pipeline, together
from rmq_core.exchange.scripts import laid_out, script
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.leased.claiming import reclaim_all
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.expiring import OVERDUE
from rmq_core.leased.inspecting import NOTHING_HELD, Glance, count_call, glance, held_call, stats_of
from rmq_core.leased.publishing import COMMIT
from rmq_core.leased.state import LeasedEngine
from rmq_core.reports import QueueStats

R = TypeVar("R")
IN_SHARDS = b"~shards"
"""In place of an expired lease: this is only one shard of the queue, which a queue object has to count."""
_AT_ONCE = 1000  # queues in one call or write: some milliseconds of the server's time


def holding(names: Sequence[str]) -> Exchange[list[str]]:
    """Return the names of those queues that have ready, delayed or leased messages."""
    keys = [LeasedKeys(name) for name in names]
    every = tuple(key for one in keys for key in (one.ready, one.delayed, one.leases))
    return [names[at] for at in (yield script("leased/holding", queues=every))]


def glances(names: Sequence[str], config: LeasedConfig, groups: str | None = None) -> Exchange[list[Glance]]:
    """Return the backlog of each of these queues and the ids of its expired leases, which the backlog leaves out.

    groups: those whose messages count, in the form that scripts read.
    """
    return together([look(LeasedEngine(LeasedKeys(name), config), groups) for name in names])


def look(engine: LeasedEngine, groups: str | None = None) -> Exchange[Glance]:
    """Return what `glances` returns, of one queue."""
    seen = yield from glance(engine, groups=groups)
    return seen._replace(late=[*seen.late, IN_SHARDS]) if engine.keys.layout == "sharded" else seen


def caught(exchange: Exchange[R]) -> Exchange[R | Exception]:
    """Return the error of an exchange in place of its result, so that it does not end the others of `together`."""
    try:
        return (yield from exchange)
    except Exception as error:  # one damaged queue must not hide the others
        return error


def parts(names: Sequence[str], *, apart: bool) -> Iterator[Sequence[str]]:
    """Split the names into parts that share a call or write; into single names when `apart`, as on a cluster."""
    size = 1 if apart else _AT_ONCE
    return (names[lo : lo + size] for lo in range(0, len(names), size))


_MOST = 64  # reclaims of at most 16 leases each: the next reading goes on


def promote(engines: Sequence[LeasedEngine]) -> Exchange[list[bool | Exception]]:
    """Make the due messages of these queues ready; return which queues have expired leases."""
    replies = yield from _in_parts(
        [script("leased/backlog", engine.keys, notify_ms=0, watcher="*") for engine in engines]
    )
    return [reply if isinstance(reply, Exception) else bool(reply[4]) for reply in replies]


def reclaim_expired(engine: LeasedEngine) -> Exchange[int]:
    """Reclaim the expired leases of a queue; return how many it found."""
    found = 0
    for _ in range(_MOST):
        late = (yield from glance(engine)).late
        found += sum(not name.startswith((COMMIT, OVERDUE)) for name in late)
        if not late or not (yield from reclaim_all(engine, late)):
            break
    yield from flush(engine)  # no queue object does so for this engine
    return found


def count(engines: Sequence[LeasedEngine]) -> Exchange[list[QueueStats | Exception]]:
    """Return what `stats` returns, for each of these queues."""
    counted = yield from _in_parts([count_call(engine) for engine in engines])
    leasing = [at for at, reply in enumerate(counted) if not isinstance(reply, Exception) and reply[7]]
    held = yield from _in_parts([held_call(engines[at], counted[at]) for at in leasing])
    leased = dict(zip(leasing, held, strict=True))
    return [_stats(reply, leased.get(at, NOTHING_HELD)) for at, reply in enumerate(counted)]


def _stats(counted: Any, held: Any) -> QueueStats | Exception:
    for reply in (counted, held):
        if isinstance(reply, Exception):
            return reply
    return stats_of(counted, held)


def _in_parts(calls: Sequence[Call]) -> Exchange[list[Any]]:
    replies: list[Any] = []
    for lo in range(0, len(calls), _AT_ONCE):
        replies += yield Pipeline(tuple(calls[lo : lo + _AT_ONCE]))
    for at, reply in enumerate(replies):
        if isinstance(reply, WrongKeyType) and (changed := (yield from laid_out(calls[at]))):
            (replies[at],) = yield Pipeline((changed,))
    return replies
