"""What the façades of all disciplines share: running operations, heartbeats, `process`, closing. No Redis commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rmq_core.exchange import Exchange
from rmq_core.messages import Lease


class Behind(Protocol):
    """What a façade asks of the state its operations share.

    prefix: what the keys of the queue begin with. beat_s: for how many seconds heartbeats extend a lease; None for no
    heartbeats.
    """

    @property
    def name(self) -> str: ...
    @property
    def prefix(self) -> bytes: ...
    @property
    def retry_budget_s(self) -> float: ...
    @property
    def beat_s(self) -> float | None: ...


def lose_all(engine: object, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
    """No lease of this discipline can be extended."""
    del engine
    yield from ()
    return [False] * len(leases)


def leave_all(engine: object) -> Exchange[None]:
    """There is nothing to be done before closing."""
    del engine
    yield from ()
