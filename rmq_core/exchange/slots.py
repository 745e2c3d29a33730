"""Call slots: idempotency keys, so a resent call takes effect once.

A slot is a Redis key and a sequence number. A mutating script stores its reply there with the call's number; a resend
returns that reply, and an older number is refused. A client owns one slot for each call in flight.
"""

from __future__ import annotations

import itertools
from collections import deque

from rmq_core.envelope.ids import nonce, process


class Slot:
    """One key, and the number of the last call made through it."""

    __slots__ = ("key", "seq")

    def __init__(self, key: bytes) -> None:
        self.key, self.seq = key, 0


class Slots:
    """The slots of one client for one queue. A forked child starts with new ones."""

    def __init__(self, prefix: bytes, retry_budget_s: float) -> None:
        self.ttl_ms = max(60_000, int(retry_budget_s * 2000))
        self._prefix = prefix
        self._own = _Own()

    def take(self) -> Slot:
        """Take a free slot; increment its number."""
        own = self._own
        if own.pid != process.id:
            own = self._own = _Own()
        try:
            slot = own.free.pop()
        except IndexError:
            slot = Slot(b"%bslot:%b/%d" % (self._prefix, own.client, next(own.numbers)))
        slot.seq += 1
        return slot

    def give(self, slot: Slot) -> None:
        """Release a slot. A late copy of its last call is refused once a newer number is used."""
        own = self._own
        if own.pid == process.id:
            own.free.append(slot)


class _Own:
    """Per-process state, replaced atomically: several threads of a forked child may replace it at once."""

    __slots__ = ("client", "free", "numbers", "pid")

    def __init__(self) -> None:
        self.pid = process.id
        self.client = nonce().encode()
        self.free: deque[Slot] = deque()
        self.numbers = itertools.count()  # atomic `next`: threads must never get the same number
