"""How the tests handle each discipline: its configuration, and how time passes for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rmq_core import LeasedConfig, exponential
from rmq_core.jobs.config import JobsConfig
from rmq_core.jobs.state import JobsKeys
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.reliable.state import ReliableConfig, ReliableKeys
from rmq_core.rotation.state import RotationConfig
from rmq_core.streams.state import QueueConfig

DELIVERIES = 2
"""How often a message may be delivered before it becomes a dead letter."""
SHORT_S = 0.03
"""The duration of a lease or a delay that is over soon."""
LONG_S = 600
"""The duration of leases whose end no test awaits."""


class Kit(NamedTuple):
    """The settings and helpers of the tests for a discipline.

    config: from the name of a queue and the seconds of a lease; DELIVERIES deliveries where they are counted, and no
    delay after a nack. let_pass: a function that lets so many seconds pass for every lease, where leases can be
    extended; gets a plain client, the name of the queue and the seconds. recover: a function that reclaims expired
    messages where claiming does not. expire: a function that ends every lease of SHORT_S where waiting would take
    seconds; gets a plain client and the name of the queue.
    """

    config: Callable[[str, float], Any]
    let_pass: Callable[[Any, str, int], None] | None = None
    recover: Callable[[Any], Any] | None = None
    expire: Callable[[Any, str], None] | None = None


def _earlier(key: Callable[[str], bytes]) -> Callable[[Any, str, int], None]:
    """Move deadlines in a sorted set."""

    def let_pass(client: Any, name: str, seconds: int) -> None:
        for lease in client.zrange(key(name), 0, -1):
            client.zincrby(key(name), -1000 * seconds, lease)

    return let_pass


def _claimed_earlier(client: Any, name: str, seconds: int) -> None:
    """Move the deadlines of the claims of reliable workers."""
    keys = ReliableKeys(name)
    for worker in client.zrange(keys.workers, 0, -1):
        key = keys.claims(worker.decode())
        for field, claim in client.hgetall(key).items():
            token, since, until = claim.decode().split(" ")
            client.hset(
                key, field, f"{token} {int(since) - 1000 * seconds} {int(until) and int(until) - 1000 * seconds}"
            )


def _delivered_earlier(client: Any, name: str, seconds: int) -> None:
    """Move the delivery times of the pending entries of a stream."""
    config = QueueConfig.named(name)
    place = config.stream_key, config.consumer_group
    for entry in client.xpending_range(*place, "-", "+", 1000):
        idle_ms = entry["time_since_delivered"] + 1000 * seconds
        client.xclaim(*place, entry["consumer"], 0, [entry["message_id"]], idle=idle_ms, justid=True)


def _age(client: Any, name: str) -> None:
    """Set the timestamps of a rotation queue to long ago."""
    for place, entry in enumerate(client.lrange(name, 0, -1)):
        identifier, bar, _ = entry.rpartition(b"|")
        if bar:
            client.lset(name, place, identifier + b"|1000000000")


KITS = {
    "leased": Kit(
        lambda _, lease_s: LeasedConfig(lease=lease_s, max_deliveries=DELIVERIES),
        _earlier(lambda name: LeasedKeys(name).leases),
    ),
    "reliable": Kit(
        lambda _, lease_s: ReliableConfig(timeout=lease_s, max_deliveries=DELIVERIES),
        _claimed_earlier,
        recover=lambda queue: queue.reap(timeout=SHORT_S),
    ),
    "rotation": Kit(lambda _, lease_s: RotationConfig(timeout=math.ceil(lease_s)), expire=_age),
    "streams": Kit(
        lambda name, lease_s: QueueConfig.named(name, claim_idle_ms=math.ceil(1000 * lease_s)), _delivered_earlier
    ),
    "jobs": Kit(
        lambda _, lease_s: JobsConfig(lease=lease_s, max_attempts=DELIVERIES, backoff=exponential(0, 0)),
        _earlier(lambda name: JobsKeys(name).leases),
    ),
}
