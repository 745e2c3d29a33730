"""Telling tools what exists: names are written down, so that nobody ever has to search the keyspace."""

from __future__ import annotations

from rmq_core.errors import QueueFull
from rmq_core.exchange import Command, Exchange
from rmq_core.keys import QUEUES, queues_of


def register(name: str, discipline: str) -> Exchange[bool]:
    """Write a queue's name where tools look for it; False on a full server, where the next call has to try again."""
    try:
        yield Command(("SADD", QUEUES, name))
        yield Command(("SADD", queues_of(discipline), name))
    except QueueFull:  # a full server must not keep consumers from draining it
        return False
    return True
