"""Whatever is lost on the wire, WorkQueue methods have their effect on a stream once and return the true outcome."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from rmq_core import RedisMessageQueueError
from rmq_core.streams import QueueConfig
from tests.faults.proxy import Fault, Proxy
from tests.redis.worlds import World

IDLE_MS = 60_000
_names = itertools.count()


class Act(NamedTuple):
    """A call, and the messages before it: how many, and whether two of them are claimed."""

    call: Callable[[Any, Any], Any]
    held: bool = False
    messages: int = 5


ACTS = {
    "publish": Act(lambda queue, _: queue.publish({"n": 9}).accepted),
    "publish_many": Act(lambda queue, _: queue.publish_many({"n": n} for n in range(2500)).accepted),
    "claim": Act(lambda queue, _: [message.payload for message in queue.claim(max_messages=3).messages]),
    "claim for a while": Act(lambda queue, _: queue.claim(lease=5).count),
    "claim nothing": Act(lambda queue, _: queue.claim(), messages=0),
    "wait for nothing": Act(lambda queue, _: queue.claim(wait=0.05), messages=0),
    "ack": Act(lambda queue, lease: queue.ack(lease), held=True),
    "ack some": Act(lambda queue, lease: queue.ack(lease, [lease.messages[1]]), held=True),
    "nack": Act(lambda queue, lease: queue.nack(lease), held=True),
    "nack some": Act(lambda queue, lease: queue.nack(lease, [lease.messages[0]]), held=True),
    "release": Act(lambda queue, lease: queue.release(lease), held=True),
    "extend": Act(lambda queue, lease: queue.extend(lease) is not None, held=True),
    "purge": Act(lambda queue, _: queue.admin.purge("ready"), held=True),
    "trim": Act(lambda queue, _: queue.trim(), held=True),
    "backlog": Act(lambda queue, _: queue.backlog().ready),
}


class Stage:
    """One run of an act on a new stream."""

    def __init__(self, world: World, wire: Proxy, act: Act) -> None:
        self.world, self.wire, self.act = world, wire, act
        self.name = f"q{next(_names)}"
        self.queue = world.open("streams", self.name, self._config(), wire.url)
        calm = world.open("streams", self.name, self._config())
        calm.publish_many({"n": number} for number in range(act.messages))
        self.lease = calm.claim(max_messages=2) if act.held else None
        self.queue.backlog()

    def run(self, fault: Fault | None = None, at: int = 0) -> tuple[Any, Any]:
        self.wire.cut(fault, at)
        try:
            told = self.act.call(self.queue, self.lease)
        except RedisMessageQueueError as error:
            told = repr(error)
        assert self.wire.hit == (fault is not None)
        return told, self.state()

    def state(self) -> Any:
        """Return entries, the position of the group, and who holds what after how many deliveries."""
        key = f"rmq:{{{self.name}}}:stream"
        group = self.world.client.xinfo_groups(key)[0]
        held = self.world.client.xpending_range(key, "rmq", "-", "+", 100)
        kinds = [("back" if entry["consumer"] == b"~" else "lease", entry["times_delivered"]) for entry in held]
        consumers = sorted(entry["pending"] for entry in self.world.client.xinfo_consumers(key, "rmq"))
        return self.world.client.xlen(key), group["pending"], kinds, consumers

    def _config(self) -> QueueConfig:
        return QueueConfig.named(self.name, claim_idle_ms=IDLE_MS)


def undisturbed(world: World, wire: Proxy, act: Act) -> tuple[Any, Any, int]:
    for _ in range(2):  # the first time, the server may not have the scripts yet
        told, found = Stage(world, wire, act).run()
    return told, found, len(wire.commands)


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.REQUEST_LOST], ids=["reply", "request"])
def test_a_call_survives_the_loss_of_each_message_on_the_wire(
    world: World, wire: Proxy, name: str, fault: Fault
) -> None:
    told, found, commands = undisturbed(world, wire, ACTS[name])
    assert commands
    for at in range(commands):
        assert Stage(world, wire, ACTS[name]).run(fault, at) == (told, found), f"at command {at} of {commands}"


@pytest.mark.parametrize("name", [name for name in ACTS if name not in {"wait for nothing", "claim nothing"}])
def test_a_request_that_arrives_after_its_resend_was_answered_changes_nothing(
    world: World, wire: Proxy, name: str
) -> None:
    told, found, commands = undisturbed(world, wire, ACTS[name])
    for at in range(commands):
        stage = Stage(world, wire, ACTS[name])
        assert stage.run(Fault.REQUEST_LATE, at) == (told, found), f"at command {at} of {commands}"
        assert wire.deliver_late()
        assert stage.state() == found, f"at command {at} of {commands}"
