"""Whatever is lost on the wire, a call of a rotation queue has its effect once and returns the true outcome."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import redis

from rmq_core import Lease, RedisMessageQueueError
from rmq_core.discipline.rotation.keys import RotationKeys
from tests.faults.patience import eventually
from tests.faults.proxy import Fault, Proxy
from tests.redis.worlds import World

_names = itertools.count()


def popped(queue: Any) -> Any:
    """Make three ids in progress and one new."""
    queue.publish_many(["a", "b", "c", "d"])
    return queue.claim(max_messages=3)


OPERATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "push": (popped, lambda queue, _: queue.push("x|5")),
    "publish_many": (popped, lambda queue, _: queue.publish_many([str(n) for n in range(2500)])[:3]),
    "safe_pop": (popped, lambda queue, _: queue.safe_pop()),
    "claim": (popped, lambda queue, _: queue.claim(max_messages=5)),
    "mark_done": (popped, lambda queue, _: queue.mark_done("b")),
    "ack": (popped, lambda queue, lease: queue.ack(lease)),
    "ack some": (popped, lambda queue, lease: queue.ack(lease, lease.messages[1:])),
    "release": (popped, lambda queue, lease: queue.release(lease)),
    "nack some": (popped, lambda queue, lease: queue.nack(lease, lease.messages[1:])),
    "purge": (popped, lambda queue, _: queue.admin.purge("ready")),
}


def told(result: Any) -> Any:
    if isinstance(result, Lease):
        return [(message.payload, message.deliveries) for message in result.messages]
    return type(result) if isinstance(result, Exception) else result


def picture(client: redis.Redis, name: str) -> dict[str, Any]:
    """Return everything relevant in a queue; whether an entry has a timestamp, not which."""
    keys = RotationKeys(name)
    entries = [entry.rpartition(b"|") for entry in client.lrange(keys.list, 0, -1)]
    stamped = [(first or last, len(last) == 10) for first, _, last in entries]
    return {
        "list": stamped,
        "done": client.zrange(keys.done, 0, -1, withscores=True),
        "taken": client.hgetall(keys.taken),
    }


class Stage:
    """One run of an operation on a new queue."""

    def __init__(self, world: World, wire: Proxy, name: str) -> None:
        self.world, self.wire, self.queue_name = world, wire, f"q{next(_names)}"
        self.prepare, self.act = OPERATIONS[name]
        self.calm = world.open("rotation", self.queue_name)
        self.queue = world.open("rotation", self.queue_name, settings=wire.url)

    def run(self, fault: Fault | None = None, at: int = 0) -> tuple[Any, dict[str, Any]]:
        given = self.prepare(self.calm)
        self.wire.cut(fault, at)
        try:
            result = self.act(self.queue, given)
        except RedisMessageQueueError as error:
            result = error
        assert bool(self.wire.hit) == (fault is not None)
        return told(result), self.state()

    def state(self) -> dict[str, Any]:
        return picture(self.world.client, self.queue_name)

    def close(self) -> None:
        self.queue.close()
        self.calm.close()


@pytest.mark.parametrize("name", list(OPERATIONS))
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_a_call_survives_the_loss_of_each_message_on_the_wire(
    world: World, wire: Proxy, name: str, fault: Fault
) -> None:
    for _ in range(2):  # the first time, the server does not have the scripts yet
        stage = Stage(world, wire, name)
        calm = stage.run()
        stage.close()
    commands = len(wire.commands)
    assert commands
    for at in range(commands):
        stage = Stage(world, wire, name)
        assert stage.run(fault, at) == calm, f"at command {at} of {commands}"
        if fault == Fault.REQUEST_LATE:
            assert wire.deliver_late()
            assert stage.state() == calm[1], f"a late command {at} of {commands} changed something"
        stage.close()


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.REQUEST_LOST], ids=["reply", "request"])
@pytest.mark.parametrize("at", range(5), ids=["name", "discipline", "pop", "block", "pop behind it"])
def test_a_waiting_pop_gets_its_id_once_whatever_is_lost(world: World, wire: Proxy, *, fault: Fault, at: int) -> None:
    calm = world.open("rotation")
    wire.cut(fault, at)
    waiting = world.in_background(world.open("rotation", settings=wire.url).safe_pop, wait=60)
    eventually(lambda: b"BLPOP" in wire.commands)
    calm.push("x")
    assert waiting.result(60) == "x"
    assert wire.hit
    assert (calm.safe_pop(), calm.mark_done("x"), calm.stats().leased) == (None, True, 0)
