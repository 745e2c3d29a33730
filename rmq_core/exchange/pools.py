"""The share of a connection pool that RMQ uses. All queue objects whose clients have the same pool use one share.

A call takes a connection and gives it back when it ends. A few stay in the share between calls, because what redis-py
does whenever a pool hands out a connection takes a tenth of the time of a call. Two bounds leave connections to others:

- between calls, the share keeps a twentieth of `max_connections`, so none of a pool of fewer than 20; under asyncio,
  up to a half while many tasks call at once;
- calls that block in Redis hold four fifths at most, and leave at least three. Waits beyond that ask Redis again and
  again, one at a time. So heartbeats and acks of this process find a connection, and so does the application.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, TypeVar

from rmq_core.envelope.codec import process
from rmq_core.exchange.frames import FAILURES, POOL_ARGS, is_full, still_full

FULL_S = 1.0
"""How long a call waits in one attempt while a full pool gets no connection back; most calls end much sooner."""
LOOK_AGAIN_S = 0.05
"""Interval at which it asks the pool meanwhile: the application may have returned a connection."""
UNLIMITED = 2**31
ON_POOL = "_rmq_share"
"""The attribute of a pool that holds the share."""


class PoolShare:
    """What RMQ has of one pool, in this process; a forked child begins anew. Threads may share it."""

    def __init__(self, pool: Any) -> None:
        self.pool_id = id(pool)
        self.most: int = getattr(pool, "max_connections", UNLIMITED)
        self.kept = self.most // 20
        self.begin()

    def begin(self) -> None:
        """Forget the connections: those of a parent process belong to the parent."""
        self.pid = process.id
        self.idle: deque[Any] = deque()
        self.returned: deque[Any] = deque(maxlen=1)
        """The connection that the pool got back last, and which it will probably hand out next."""
        self.polling: deque[None] = deque()
        """One entry for each wait that polls; they poll one after the other."""
        self.blocking = threading.Semaphore(max(0, self.most - max(3, self.most // 5)))
        self.served = 0.0
        """When the line of calls that wait for a full pool last got a connection."""

    def check_patience(self, since: float) -> None:
        """Raise MaxConnectionsError, with the limit, if the pool has been full for too long."""
        if time.monotonic() >= since + FULL_S:
            raise still_full(self.most)


class SyncShare(PoolShare):
    """The share of a pool of a blocking client."""

    def begin(self) -> None:
        super().begin()
        self.looking = threading.Lock()
        self.turn, self._given = threading.Lock(), threading.Event()
        """The turn belongs to the first of the calls that stand in a line because the pool is full."""

    @property
    def connected(self) -> bool:
        """Whether the next call probably finds an open connection."""
        return any(getattr(connection, "is_connected", True) for connection in (*self.idle, *self.returned))

    def take(self, pool: Any) -> Any:
        """Return a connection. Raises what redis-py raises, and MaxConnectionsError when the pool stays full."""
        if self.pid != process.id:
            self.begin()
        try:
            return self.idle.pop()
        except IndexError:
            return self._ask(pool)

    def give_back(self, pool: Any, kept: int = 0) -> None:
        """Return idle connections to the pool, all but `kept`; all of them while calls stand in a line for one."""
        while self.pid == process.id and len(self.idle) > (0 if self.turn.locked() else kept):
            with suppress(IndexError):  # another thread may take one meanwhile
                connection = self.idle.pop()
                self.returned.append(connection)
                pool.release(connection)
        self._given.set()

    def drop(self, pool: Any) -> None:
        """Close the idle connections and return them: their server may be gone or no longer the primary."""
        with suppress(IndexError):
            while True:  # one at a time: a connection that another thread has just taken must stay with that thread
                connection = self.idle.pop()
                connection.disconnect()
                pool.release(connection)

    def _ask(self, pool: Any) -> Any:
        """Get a connection from the pool. While it is full, calls stand in a line, and the first one asks again."""
        began = time.monotonic()
        if not self.turn.locked() and (found := self._find(pool)):
            return found
        self.check_patience(began)
        with self.turn:
            self._given.clear()
            while not (found := self._find(pool)):
                self.check_patience(max(began, self.served))
                self._given.wait(LOOK_AGAIN_S)
                self._given.clear()
            self.served = time.monotonic()
            return found

    def _find(self, pool: Any) -> Any:
        """Return a connection, or None if the pool is full."""
        with suppress(IndexError):
            return self.idle.pop()
        try:
            return pool.get_connection(*POOL_ARGS)
        except FAILURES as error:
            if is_full(error):
                return None
            raise


S = TypeVar("S", bound=PoolShare)


def share_of(pool: Any, kind: type[S]) -> S:
    """Return the share of a pool. It is an attribute of the pool, so it lives as long."""
    attributes = vars(pool)
    found = attributes.get(ON_POOL)
    if found is None:
        found = attributes.setdefault(ON_POOL, kind(pool))
    elif found.pool_id != id(pool):  # the pool is a copy of another one
        found = attributes[ON_POOL] = kind(pool)
    return found  # type: ignore[no-any-return]
