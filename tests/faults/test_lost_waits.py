"""A claim that waits for messages loses none, whatever is lost on the wire during its wait."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from rmq_core import LeasedConfig
from tests.core.worlds import World
from tests.faults.patience import PATIENCE_S, eventually
from tests.faults.proxy import Fault, Proxy

# What a waiting claim sends: a reading of the stored settings, its registration or the ack of the lease before, a claim
# that finds nothing, a record of the program along with its first script, the block, and the claim behind it.
PLACES = ("settings", "first", "claim", "record", "block", "claim behind it")
SENT = {
    "claim": PLACES,
    "claim by name": ("settings", "first", "claim", "record", "block", "settings again", "claim behind it"),
    "claim_next": ("settings", "first", "record", "claim", "block", "claim behind it"),
}


def wait_for_work(world: World, wire: Proxy, kind: str) -> tuple[Any, Future[Any]]:
    """Return an undisturbed queue, and a claim of that kind that waits through the proxy."""
    calm, queue = world.queue(), world.queue(config=LeasedConfig(history=False), settings=wire.url)  # sends no flush
    calm.publish_many(["before"] * 2)
    lease = calm.claim_next(ack=calm.claim())  # so that the server knows the scripts
    if kind == "claim_next":
        return calm, world.in_background(queue.claim_next, ack=lease, wait=60)
    calm.ack(lease)
    name = {"lease_id": "name"} if kind == "claim by name" else {}
    return calm, world.in_background(queue.claim, wait=60, **name)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.REQUEST_LOST], ids=["reply", "request"])
@pytest.mark.parametrize("kind", SENT)
def test_a_waiting_claim_gets_its_message_once_whatever_is_lost(
    world: World, wire: Proxy, kind: str, place: str, fault: Fault
) -> None:
    wire.cut(fault, SENT[kind].index(place))
    calm, waiting = wait_for_work(world, wire, kind)
    eventually(lambda: len(wire.commands) > 4)
    calm.publish("x")
    lease = waiting.result(60)
    assert wire.hit
    first = b"EVALSHA" if kind == "claim_next" else b"SADD"
    commands = dict(zip(PLACES, (b"GET", first, b"EVALSHA", b"EVAL", b"BLPOP", b"EVALSHA"), strict=True))
    assert wire.commands[SENT[kind].index(place)] == commands[place]
    assert [message.payload for message in lease.messages] == ["x"]
    assert calm.stats()[:5] == (0, 0, 1, 1, 0)
    assert calm.ack(lease).settled == 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", SENT)
def test_a_late_blocking_pop_and_a_late_claim_take_nothing_from_others(
    world: World, wire: Proxy, kind: str, place: str
) -> None:
    wire.cut(Fault.REQUEST_LATE, SENT[kind].index(place))
    calm, waiting = wait_for_work(world, wire, kind)
    eventually(lambda: len(wire.commands) > 4)
    calm.publish("x")
    assert calm.ack(waiting.result(60)).settled == 1
    assert wire.hit
    calm.publish("y")
    world.client.lpush("rmq:{q}:wake", "1")  # so that the late blocking pop does not take its 5 s
    assert wire.deliver_late()
    assert calm.stats()[:5] == (1, 0, 0, 0, 0)


def test_many_waiting_claims_share_the_work_although_their_connections_break_repeatedly(
    world: World, wire: Proxy
) -> None:
    calm, queue = world.queue(), world.queue(settings=wire.url)

    sent_all = threading.Event()

    def work() -> list[str]:
        found = []
        while True:
            last = sent_all.is_set()
            lease = queue.claim(wait=1)
            if lease is None and last:
                return found
            if lease is not None:
                found.append(lease.message.payload)
                queue.ack(lease)

    workers = [world.in_background(work) for _ in range(6)]
    sent = [str(number) for number in range(200)]
    for number in sent:
        calm.publish(number)
        if int(number) % 20 == 0:
            wire.cut_all()
    sent_all.set()
    assert sorted(payload for worker in workers for payload in worker.result(PATIENCE_S)) == sorted(sent)
    assert calm.stats()[:5] == (0, 0, 0, 0, 0)
