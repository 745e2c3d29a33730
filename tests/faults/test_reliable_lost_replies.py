"""Whatever is lost on the wire, a call of a reliable queue has its effect once and returns the true outcome."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

from rmq_core import Lease
from rmq_core.envelope import codec
from rmq_core.reliable import ReliableConfig
from rmq_core.reliable.state import ReliableKeys
from tests.core.worlds import World
from tests.faults.lost import Call, Kind, check_each_loss
from tests.faults.patience import eventually
from tests.faults.proxy import Fault, Proxy

CONFIG = ReliableConfig(worker="w", max_deliveries=2)


def claimed(queue: Any) -> Any:
    queue.publish_many(["a", "b", "c", "d"])
    queue.nack(queue.claim())
    held = queue.claim(max_messages=1), queue.claim(max_messages=2)
    time.sleep(0.003)  # for longer than a reaper's timeout of 1 ms
    return held


def dead(queue: Any) -> Any:
    queue.publish_many(["a", "b", "c"])
    for _ in range(2):
        lease = queue.claim(max_messages=1)
        queue.nack(lease)


OPERATIONS: dict[str, Call] = {
    "publish": (lambda queue: None, lambda queue, _: queue.publish("x").accepted),
    "publish_many": (
        lambda queue: None,
        lambda queue, _: queue.publish_many([str(n) for n in range(2500)])[:3],
    ),
    "claim": (lambda queue: queue.publish_many(["a", "b"]), lambda queue, _: queue.claim()),
    "claim many": (lambda queue: queue.publish_many(["a", "b", "c"]), lambda queue, _: queue.claim(max_messages=2)),
    "ack": (claimed, lambda queue, held: queue.ack(held[1])),
    "ack some": (claimed, lambda queue, held: queue.ack(held[1], [held[1].messages[1]])),
    "nack": (claimed, lambda queue, held: queue.nack(held[1], reason="no")),
    "nack for the last time": (claimed, lambda queue, held: queue.nack(held[0], reason="no")),
    "release": (claimed, lambda queue, held: queue.release(held[1])),
    "extend": (claimed, lambda queue, held: queue.extend(held[1]) is not None),
    "reap": (claimed, lambda queue, _: queue.reap(timeout=0.001)),
    "redrive": (dead, lambda queue, _: queue.admin.redrive()),
    "purge": (dead, lambda queue, _: queue.admin.purge("dead")),
}


def comparable(result: Any) -> Any:
    """Return what a call returned or raised, without what differs between runs."""
    if isinstance(result, Lease):
        return result.owner, [(message.payload, message.deliveries) for message in result.messages]
    return type(result) if isinstance(result, Exception) else result


def snapshot(client: redis.Redis, name: str) -> dict[str, Any]:
    """Return everything relevant in a queue."""
    keys = ReliableKeys(name)
    lists = {"queue": keys.queue, "dead": keys.dead, "processing": keys.processing("w")}
    found: dict[str, Any] = {what: [_shape(one) for one in client.lrange(key, 0, -1)] for what, key in lists.items()}
    found["claims"] = client.hlen(keys.claims("w"))
    return found | {"strays": client.hlen(keys.strays), "workers": client.zrange(keys.workers, 0, -1)}


def _shape(envelope: bytes) -> tuple[bytes, int, int]:
    parts = codec.split(envelope)
    return parts.payload, parts.deliveries, parts.history.count(b"\n")


PLACES = ["settings", "name", "discipline", "claim", "record of the program", "block", "claim behind it"]
KIND = Kind("reliable", lambda _: CONFIG, comparable, snapshot)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_call_survives_the_loss_of_each_message_on_the_wire(world: World, wire: Proxy, name: str) -> None:
    check_each_loss(world, wire, KIND, OPERATIONS[name])


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.REQUEST_LOST], ids=["reply", "request"])
@pytest.mark.parametrize("at", range(7), ids=PLACES)
def test_a_waiting_claim_gets_its_message_once_whatever_is_lost(
    world: World, wire: Proxy, *, fault: Fault, at: int
) -> None:
    calm = world.open("reliable", config=CONFIG)
    calm.stats()
    wire.cut(fault, at)
    waiting = world.in_background(world.open("reliable", config=CONFIG, settings=wire.url).claim, wait=60)
    eventually(lambda: b"BLMOVE" in wire.commands)
    calm.publish("x")
    lease = waiting.result(60)
    assert wire.hit
    assert [message.payload for message in lease.messages] == ["x"]
    assert calm.stats()[:5] == (0, 0, 1, 1, 0)
    assert calm.ack(lease).settled == 1


def test_a_message_moved_by_a_late_blmove_goes_to_the_next_claim_of_its_worker(world: World, wire: Proxy) -> None:
    calm, queue = (world.open("reliable", config=CONFIG, settings=url) for url in (world.url, wire.url))
    assert calm.claim() is None  # the server knows the script now, so that none is sent again
    wire.cut(Fault.REQUEST_LATE, PLACES.index("block"))
    waiting = world.in_background(queue.claim, wait=60)
    eventually(lambda: wire.commands.count(b"BLMOVE") == 2)
    calm.publish("x")
    assert calm.ack(waiting.result(60)).settled == 1
    calm.publish("y")
    moved, refused, _ = wire.deliver_late()
    assert moved.endswith(b"y")
    assert refused[0] == b"superseded"
    lease = queue.claim()
    assert lease.message.payload == "y"
    assert queue.ack(lease).settled == 1
