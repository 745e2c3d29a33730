"""Publications: names that publishers give to messages which belong together, and whether all of them are done.

Scripts count the messages of each in a queue with groups; see `grouped/publications.lua`. A lease keeps how many it has
of each, so that an ack costs the same for one message and for a million.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from rmq_core.envelope.codec import new_id
from rmq_core.errors import ConfigurationError, QueueUnavailable, RedisMessageQueueError
from rmq_core.exchange import Exchange, Listen, blocks_for
from rmq_core.exchange.scripts import script
from rmq_core.kernel.registry import ready
from rmq_core.kernel.settings import fresh
from rmq_core.leased.config import DISCIPLINE
from rmq_core.leased.state import LeasedEngine
from rmq_core.policy import checked_group, milliseconds
from rmq_core.reports import Publication

R = TypeVar("R")
_WEEK_MS = 7 * 86_400_000


def open_publication(engine: LeasedEngine, name: str) -> Exchange[None]:
    """Keep a publication from ending until `close_publication`, while several programs publish into it.

    Each call of it needs its own `close_publication`. If nothing arrives for ten minutes, publishers count as gone.
    Raises ConfigurationError for a queue without groups.
    """
    yield from _open(engine, name, 1)


def close_publication(engine: LeasedEngine, name: str) -> Exchange[None]:
    """Let a publication end when all of its messages are done; see `open_publication`."""
    yield from _open(engine, name, -1)


def _open(engine: LeasedEngine, name: str, change: int) -> Exchange[None]:
    checked_group(name, "publication")
    yield from learn_groups(engine)
    require_groups(engine, "publication")
    yield from ready(engine, DISCIPLINE)
    yield script("leased/open_publication", engine.keys, name=name, change=change, keep_ms=_WEEK_MS)


def opened(engine: LeasedEngine, name: str, publishing: Exchange[R]) -> Exchange[R]:
    """Publish while the publication is open, so that it cannot end before all of its messages are there."""
    yield from _open(engine, name, 1)
    try:
        result = yield from publishing
    except Exception:
        with suppress(RedisMessageQueueError):  # the caller needs the error of publishing
            yield from _open(engine, name, -1)
        raise
    with suppress(QueueUnavailable):  # the messages are there; without this it ends some minutes later
        yield from _open(engine, name, -1)
    return result


def publication(engine: LeasedEngine, name: str, *, wait: timedelta | float = 0) -> Exchange[Publication]:
    """Return how many messages of a publication wait, are leased, acked and dead; wait for its end at most `wait`.

    wait: seconds or timedelta. It has ended when no message of it is left and no `publish_many` adds any. One that is
    unknown has not ended. Leases that have expired are taken back first. Raises ConfigurationError for a queue without
    groups.
    """
    from rmq_core.leased.claiming import reclaim_all  # its module imports publishing, and that this one

    checked_group(name, "publication")
    wait_ms, until, waiter = milliseconds("wait", wait), None, new_id()
    yield from learn_groups(engine)
    require_groups(engine, "publication")
    left = wait_ms
    while True:
        block_ms = min(5000, left)
        stored, now, late = yield script("leased/publication", engine.keys, name=name, waiter=waiter, wait_ms=block_ms)
        if late and (yield from reclaim_all(engine, late)):
            continue
        until = int(now) + wait_ms if until is None else until
        left, found = until - int(now), Publication.of(name, stored.decode(), int(now))
        if found.done or left <= 0:
            return found
        yield Listen(("BLPOP", engine.keys.finished, blocks_for(min(5000, left))), min(5000, left))


def require_groups(engine: LeasedEngine, parameter: str) -> None:
    """Raise ConfigurationError for a queue without groups, which ignores this parameter."""
    if engine.config.groups is None:
        raise ConfigurationError(
            f"{parameter}: queue {engine.name!r} ignores it, because it has no groups;"
            " queue.admin.configure(groups='fair') gives it some"
        )


def learn_groups(engine: LeasedEngine) -> Exchange[None]:
    """Read the settings again if this client knows of no groups: another program may have set some just now."""
    if engine.config.groups is None:
        engine.look_at = 0.0
        yield from fresh(engine)
