"""What the operations of one queue share: its keys, its settings, its unfinished claims. No IO."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from rmq_core.events import OnEvent, Operation, QueueEvent, tell
from rmq_core.keys import LeasedKeys
from rmq_core.leased.config import LeasedConfig
from rmq_core.policy import milliseconds


@dataclass(slots=True, eq=False)
class Engine:
    """State of a queue object. `unanswered` maps ids of claims that ended without a reply to their nonces."""

    keys: LeasedKeys
    config: LeasedConfig
    on_event: OnEvent | None = None
    registered: bool = False
    unanswered: dict[str, str] = field(default_factory=dict)

    def tell(self, operation: Operation, count: int = 1, lease_id: str | None = None, **about: str | None) -> None:
        if self.on_event is not None and count > 0:
            tell(self.on_event, QueueEvent(self.keys.name, operation, count, lease_id, **about))

    def lease_ms(self, lease: timedelta | float | None, parameter: str = "lease") -> int | str:
        """A lease time as the scripts want it; None is the queue's own."""
        return self.config.lease_ms if lease is None else milliseconds(parameter, lease, minimum=0.001)
