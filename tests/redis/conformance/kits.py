"""How the tests handle each discipline: its configuration, and how time passes for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rmq_core import LeasedConfig, exponential
from rmq_core.jobs.config import JobsConfig
from rmq_core.reliable.config import ReliableConfig
from rmq_core.rotation.config import RotationConfig
from rmq_core.streams.config import QueueConfig

DELIVERIES = 2
"""How often a message may be delivered before it is set aside."""
SHORT_S = 0.03
"""A lease or a delay that is over soon."""
LONG_S = 600
"""How long leases last that no test waits for."""


class Kit(NamedTuple):
    """What the tests need to know of a discipline.

    config: from the name of a queue and the seconds of a lease; DELIVERIES deliveries where they are counted, and no
    delay after a nack. recover: what takes expired messages back where claiming does not. expire: what lets every
    lease of SHORT_S be over where that would take seconds; gets a plain client and the name of the queue.
    """

    config: Callable[[str, float], Any]
    recover: Callable[[Any], Any] | None = None
    expire: Callable[[Any, str], None] | None = None


def _age(client: Any, name: str) -> None:
    """Set the stamps of a rotation queue back to long ago."""
    for place, entry in enumerate(client.lrange(name, 0, -1)):
        identifier, bar, _ = entry.rpartition(b"|")
        if bar:
            client.lset(name, place, identifier + b"|1000000000")


KITS = {
    "leased": Kit(lambda _, lease_s: LeasedConfig(lease=lease_s, max_deliveries=DELIVERIES)),
    "reliable": Kit(
        lambda _, lease_s: ReliableConfig(timeout=lease_s, max_deliveries=DELIVERIES),
        recover=lambda queue: queue.reap(timeout=SHORT_S),
    ),
    "rotation": Kit(lambda _, lease_s: RotationConfig(timeout=math.ceil(lease_s)), expire=_age),
    "streams": Kit(lambda name, lease_s: QueueConfig.named(name, claim_idle_ms=math.ceil(1000 * lease_s))),
    "jobs": Kit(lambda _, lease_s: JobsConfig(lease=lease_s, max_attempts=DELIVERIES, backoff=exponential(0, 0))),
}
