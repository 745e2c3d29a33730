"""Whatever is lost on the wire, a call has its effect once and returns the true outcome.

Each call of `operations` runs undisturbed first. Then it runs again for every command it sent, with a fault at that
command, and must return the same and leave the queue the same, down to the number of fencing tokens drawn.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from rmq_core import Lease, RedisMessageQueueError, RedisSettings
from tests.core.worlds import World
from tests.faults import picture
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.proxy import Fault, Proxy

Calm = tuple[Any, dict[str, Any], int]
_names = itertools.count()


class Stage:
    """One run of an operation on a new queue."""

    def __init__(self, world: World, wire: Proxy, operation: Operation) -> None:
        self.world, self.wire, self.operation = world, wire, operation
        self.name = f"q{next(_names)}"
        config = dataclasses.replace(operation.config, history=False)  # a flush is sent once
        self.calm = world.queue(self.name, config)
        if operation.groups:
            self.calm.admin.configure(groups=operation.groups)
        settings = RedisSettings.from_url(wire.url)
        self.queue = world.queue(self.name, config, settings=settings)
        self.given = operation.prepare(self.calm, world.client)

    def run(self, fault: Fault | None = None, at: int = 0) -> tuple[Any, dict[str, Any]]:
        """Act with a fault at a command; return the result of the call, and the queue after it."""
        self.wire.cut(fault, at)
        result = self._act()
        assert self.wire.hit == (fault is not None)
        told, found = picture.of_result(result), self.state()
        if isinstance(result, Lease):
            self.calm.extend(result, 900)  # raises LeaseLost unless the returned token holds the lease
        return told, found

    def state(self) -> dict[str, Any]:
        return {**picture.of_queue(self.world.client, self.name), "paused": self.calm.stats().paused}

    def close(self) -> None:
        self.queue.close()
        self.calm.close()

    def _act(self) -> Any:
        try:
            return self.operation.act(self.queue, self.given)
        except RedisMessageQueueError as error:
            return error


def undisturbed(world: World, wire: Proxy, operation: Operation) -> Calm:
    """Return the result of an undisturbed call, the queue after it, and its number of commands."""
    for _ in range(2):  # the first time, the server does not have the scripts yet
        stage = Stage(world, wire, operation)
        told, found = stage.run()
        stage.close()
        assert wire.commands
    return told, found, len(wire.commands)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_call_survives_the_loss_of_each_message_on_the_wire(world: World, wire: Proxy, operation: Operation) -> None:
    told, found, commands = undisturbed(world, wire, operation)
    for fault, at in itertools.product(Fault, range(commands)):
        stage = Stage(world, wire, operation)
        assert stage.run(fault, at) == (told, found), f"{fault.value}, at command {at} of {commands}"
        if fault == Fault.REQUEST_LATE:
            assert wire.deliver_late()
            assert stage.state() == found, f"a late command {at} of {commands} changed something"
        stage.close()
