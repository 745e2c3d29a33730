"""Inspect many queues of one server at once without claiming anything.

Ten thousand queues take seconds one by one; here they share calls and writes. On a cluster the queues are in different
slots, so each queue has calls of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rmq_core.discipline.leased.config import LeasedConfig
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.inspecting import Glance, glance
from rmq_core.exchange import Exchange, together
from rmq_core.exchange.scripts import script
from rmq_core.queue.keys import LeasedKeys

R = TypeVar("R")
_AT_ONCE = 1000  # queues in one call or write: some milliseconds of the server's time


def holding(names: Sequence[str]) -> Exchange[list[str]]:
    """Return the names of those queues that have ready, delayed or leased messages."""
    keys = [LeasedKeys(name) for name in names]
    every = tuple(key for one in keys for key in (one.ready, one.delayed, one.leases))
    return [names[at] for at in (yield script("leased/holding", queues=every))]


def glances(names: Sequence[str], config: LeasedConfig) -> Exchange[list[Glance]]:
    """Return the backlog of each of these queues and the ids of its expired leases, which the backlog leaves out."""
    return together([glance(LeasedEngine(LeasedKeys(name), config)) for name in names])


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
