"""Whatever is lost on the wire, a call of a rotation queue has its effect once and returns the true outcome."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from rmq_core import Lease
from rmq_core.rotation.state import RotationKeys
from tests.core.worlds import World
from tests.faults.lost import Call, Kind, check_each_loss
from tests.faults.patience import eventually
from tests.faults.proxy import Fault, Proxy


def popped(queue: Any) -> Any:
    """Make three ids in progress and one new."""
    queue.publish_many(["a", "b", "c", "d"])
    return queue.claim(max_messages=3)


OPERATIONS: dict[str, Call] = {
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


def comparable(result: Any) -> Any:
    if isinstance(result, Lease):
        return [(message.payload, message.deliveries) for message in result.messages]
    return type(result) if isinstance(result, Exception) else result


def snapshot(client: redis.Redis, name: str) -> dict[str, Any]:
    """Return everything relevant in a queue; whether an entry has a timestamp, not which."""
    keys = RotationKeys(name)
    entries = [entry.rpartition(b"|") for entry in client.lrange(keys.list, 0, -1)]
    stamped = [(first or last, len(last) == 10) for first, _, last in entries]
    return {
        "list": stamped,
        "done": client.zrange(keys.done, 0, -1, withscores=True),
        "taken": client.hgetall(keys.taken),
    }


KIND = Kind("rotation", lambda _: None, comparable, snapshot)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_call_survives_the_loss_of_each_message_on_the_wire(world: World, wire: Proxy, name: str) -> None:
    check_each_loss(world, wire, KIND, OPERATIONS[name])


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
