"""The state that the operations of one queue share: its keys, its settings, its unanswered claims. No IO."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rmq_core.discipline.leased.config import LeasedConfig
from rmq_core.errors import LeaseLost
from rmq_core.events import EventOutcome, OnEvent, Operation, QueueEvent, tell
from rmq_core.messages import Lease
from rmq_core.policy import milliseconds, seconds
from rmq_core.queue.keys import LeasedKeys
from rmq_core.queue.settle import lost


@dataclass(slots=True, eq=False)
class LeasedEngine:
    """State of a queue object. `unanswered` maps ids of claims that ended without a reply to their nonces."""

    keys: LeasedKeys
    config: LeasedConfig
    on_event: OnEvent | None = None
    registered: bool = False
    unanswered: dict[str, str] = field(default_factory=dict)
    own_lease_ms: int | str = field(init=False)
    dedup_window_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.own_lease_ms = self.config.lease_ms
        self.dedup_window_ms = milliseconds("dedup_window", self.config.dedup_window)

    @property
    def name(self) -> str:
        return self.keys.name

    @property
    def prefix(self) -> bytes:
        return self.keys.prefix

    @property
    def retry_budget_s(self) -> float:
        return self.config.retry_budget_s

    @property
    def beat_s(self) -> float | None:
        return None if self.config.lease is None else seconds("lease", self.config.lease)

    def tell(self, operation: Operation, count: int = 1, lease_id: str | None = None, **about: Any) -> None:
        if self.on_event is not None and count > 0:
            outcome = EventOutcome.SKIPPED if operation == Operation.DUPLICATE else EventOutcome.SUCCESS
            event = QueueEvent(self.keys.name, operation, outcome, claim_id=lease_id, count=count, **about)
            tell(self.on_event, event)

    def lost(self, lease: Lease) -> LeaseLost:
        """Mark a lease as lost, emit that event, and return the error to raise."""
        self.tell(Operation.LOST, lease.count, lease.id)
        return lost(lease)

    def lease_ms(self, lease: timedelta | float | None, parameter: str = "lease") -> int | str:
        """Return a lease time in the form that the scripts expect; None means the queue's own lease time."""
        return self.own_lease_ms if lease is None else milliseconds(parameter, lease, minimum=0.001)
