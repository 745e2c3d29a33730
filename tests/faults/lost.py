"""Repeat a call with a fault at each command that it sends: the result and the queue afterwards stay the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any
from unittest.mock import patch

import redis

from rmq_core import RedisMessageQueueError
from rmq_core.kernel import settings
from tests.core.worlds import World
from tests.faults.proxy import Fault, Proxy

Call = tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]
"""How a queue is prepared, and the call itself, which gets the queue and what the preparation returned."""
_names = itertools.count()


@dataclass(frozen=True)
class Kind:
    """Queues of a discipline. `comparable` reduces a result, and `snapshot` the stored queue, to what all runs have in
    common. `first` precedes each call."""

    discipline: str
    config: Callable[[str], Any]
    comparable: Callable[[Any], Any]
    snapshot: Callable[[redis.Redis, str], Any]
    first: Callable[[Any], object] = lambda queue: queue


def play(world: World, wire: Proxy, kind: Kind, call: Call, fault: Fault | None = None, at: int = 0) -> tuple[str, Any]:
    """Call once on a new queue; return its name, and the result together with a snapshot of the queue afterwards."""
    prepare, act = call
    name = f"q{next(_names)}"
    config = kind.config(name)
    given = prepare(world.open(kind.discipline, name, config))
    queue = world.open(kind.discipline, name, config, settings=wire.url)
    kind.first(queue)
    wire.cut(fault, at)
    try:
        result = act(queue, given)
    except RedisMessageQueueError as error:
        result = error
    assert bool(wire.hit) == (fault is not None)
    return name, (kind.comparable(result), kind.snapshot(world.client, name))


def check_each_loss(world: World, wire: Proxy, kind: Kind, call: Call, faults: Iterable[Fault] = Fault) -> None:
    """Compare the call with each fault at each of its commands with the call undisturbed.

    Settings are read once, and not again by the clock, so that each run has the same commands.
    """
    with patch.object(settings, "INTERVAL_S", inf):
        _check_each_loss(world, wire, kind, call, faults)


def _check_each_loss(world: World, wire: Proxy, kind: Kind, call: Call, faults: Iterable[Fault]) -> None:
    play(world, wire, kind, call)  # the server has the scripts now
    _, calm = play(world, wire, kind, call)
    commands = len(wire.commands)
    assert commands
    for fault, at in itertools.product(faults, range(commands)):
        name, found = play(world, wire, kind, call, fault, at)
        assert found == calm, f"{fault.value}, at command {at} of {commands}"
        if fault == Fault.REQUEST_LATE:
            assert wire.deliver_late()
            assert kind.snapshot(world.client, name) == calm[1], f"a late command {at} of {commands} changed something"
