"""The WorkQueue protocol on a reliable queue, and what the queue refuses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from rmq_core import ConfigurationError, Lease, Unsupported
from tests.core.leases import snapshot
from tests.core.reliable.bench import KEYS, age, worker
from tests.core.worlds import World

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a delay": (lambda queue: queue.publish("x", delay=1), "delay"),
    "a delay of many": (lambda queue: queue.publish_many(["x"], delay=1), "delay"),
    "deduplication": (lambda queue: queue.publish("x", dedup_key="k"), "dedup"),
    "deduplication of many": (lambda queue: queue.publish_many(["x"], dedup_key=str), "dedup"),
    "a large lease": (lambda queue: queue.claim(max_messages=4001), "leases of more than 4000 messages"),
    "a named lease": (lambda queue: queue.claim(lease_id="job"), "lease_id"),
    "delayed messages": (lambda queue: queue.admin.purge("delayed"), "delayed"),
    "a delayed nack": (lambda queue: queue.nack(Lease("q", "~", "w", 1, 1, "t", envelopes=[b""]), delay=1), "delay"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_an_unsupported_option_is_refused_before_anything_is_sent(world: World, what: str) -> None:
    call, named = REFUSED[what]
    queue = worker(world)
    before = snapshot(world.client)
    with pytest.raises(Unsupported, match=rf"'reliable' has no {named}.*leased"):
        call(queue)
    assert snapshot(world.client) == before


def test_any_number_of_workers_is_counted_and_reaped(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b"])
    world.client.zadd(KEYS.workers, {f"idle {number}": time.time() * 1000 for number in range(2100)})
    for name in ("w", "idle 7"):
        queue.claim(owner=name)
        age(world, name)
    assert queue.stats()[:4] == (0, 0, 2, 2)
    world.client.config_resetstat()
    assert queue.reap().returned == 2
    assert world.client.info("commandstats")["cmdstat_evalsha"]["calls"] <= 10


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda queue: queue.claim(max_messages=0), "max_messages"),
        (lambda queue: queue.claim(wait=-1), "wait"),
        (lambda queue: queue.claim(lease=0), "lease"),
        (lambda queue: queue.claim(owner="{"), "owner"),
        (lambda queue: queue.admin.purge("everything"), "target"),
        (lambda queue: queue.admin.peek(0), "count"),
        (lambda queue: queue.admin.redrive(0), "max_messages"),
        (lambda queue: queue.reap(timeout=0), "timeout"),
        (lambda queue: queue.reap(max_deliveries=0), "max_deliveries"),
        (lambda queue: queue.ack(Lease.from_json(Lease("q", "x", "w", 1, 1, "t").to_json())), "adopt"),
    ],
)
def test_the_error_for_an_invalid_value_names_the_parameter(
    world: World, call: Callable[[Any], Any], parameter: str
) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        call(worker(world))
