"""Whatever is lost on the wire, WorkQueue methods have their effect on a stream once and return the true outcome."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

import pytest
import redis

from rmq_core.streams import QueueConfig
from tests.core.worlds import World
from tests.faults.lost import Call, Kind, check_each_loss
from tests.faults.proxy import Fault, Proxy

IDLE_MS = 60_000


def nothing(queue: Any) -> None:
    queue.publish_many([])


def ready(queue: Any) -> None:
    queue.publish_many({"n": number} for number in range(5))


def held(queue: Any) -> Any:
    ready(queue)
    return queue.claim(max_messages=2)


ACTS: dict[str, Call] = {
    "publish": (ready, lambda queue, _: queue.publish({"n": 9}).accepted),
    "publish_many": (ready, lambda queue, _: queue.publish_many({"n": n} for n in range(2500)).accepted),
    "claim": (ready, lambda queue, _: [message.payload for message in queue.claim(max_messages=3).messages]),
    "claim for a while": (ready, lambda queue, _: queue.claim(lease=5).count),
    "claim nothing": (nothing, lambda queue, _: queue.claim()),
    "wait for nothing": (nothing, lambda queue, _: queue.claim(wait=0.05)),
    "ack": (held, lambda queue, lease: queue.ack(lease)),
    "ack some": (held, lambda queue, lease: queue.ack(lease, [lease.messages[1]])),
    "nack": (held, lambda queue, lease: queue.nack(lease)),
    "nack some": (held, lambda queue, lease: queue.nack(lease, [lease.messages[0]])),
    "release": (held, lambda queue, lease: queue.release(lease)),
    "extend": (held, lambda queue, lease: queue.extend(lease) is not None),
    "purge": (held, lambda queue, _: queue.admin.purge("ready")),
    "trim": (held, lambda queue, _: queue.trim()),
    "backlog": (ready, lambda queue, _: queue.backlog().ready),
}


def comparable(result: Any) -> Any:
    return repr(result) if isinstance(result, Exception) else result


def snapshot(client: redis.Redis, name: str) -> Any:
    """Return entries, the position of the group, and who holds what after how many deliveries."""
    key = f"rmq:{{{name}}}:stream"
    pending = client.xinfo_groups(key)[0]["pending"]
    found = client.xpending_range(key, "rmq", "-", "+", 100)
    kinds = [("back" if entry["consumer"] == b"~" else "lease", entry["times_delivered"]) for entry in found]
    consumers = sorted(entry["pending"] for entry in client.xinfo_consumers(key, "rmq"))
    return client.xlen(key), pending, kinds, consumers


KIND = Kind(
    "streams",
    lambda name: QueueConfig.named(name, claim_idle_ms=IDLE_MS),
    comparable,
    snapshot,
    first=methodcaller("backlog"),
)


@pytest.mark.parametrize("name", ACTS)
def test_a_call_survives_the_loss_of_each_message_on_the_wire(world: World, wire: Proxy, name: str) -> None:
    faults = [
        fault for fault in Fault if fault != Fault.REQUEST_LATE or name not in {"wait for nothing", "claim nothing"}
    ]
    check_each_loss(world, wire, KIND, ACTS[name], faults)
