"""Call slots: what makes a call that is sent twice have one effect.

A slot is a key of the queue and a sequence number. A script that changes state stores its reply there, under the number
of the call; a resend gets the stored reply, and a call older than the stored one is refused. A client owns as many
slots as it has calls in flight at once.
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
        """A slot nobody uses, its number advanced."""
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
        """Use a slot again; safe even when its last call may still arrive, for a newer number refuses it."""
        own = self._own
        if own.pid == process.id:
            own.free.append(slot)


class _Own:
    """What belongs to one process: replaced as a whole, for the threads of a forked child may all be at it at once."""

    __slots__ = ("client", "free", "numbers", "pid")

    def __init__(self) -> None:
        self.pid = process.id
        self.client = nonce().encode()
        self.free: deque[Slot] = deque()
        self.numbers = itertools.count()  # threads may draw at once and must never get the same
