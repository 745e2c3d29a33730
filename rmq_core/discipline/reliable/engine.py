"""The state that the operations of one queue share: its keys, its settings, the name of this worker. No IO."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from rmq_core.discipline.reliable.config import ReliableConfig
from rmq_core.discipline.reliable.keys import ReliableKeys
from rmq_core.envelope.ids import nonce
from rmq_core.messages import Lease
from rmq_core.policy import seconds
from rmq_core.queue.counting import Counting
from rmq_core.queue.tally import Tally


@dataclass(slots=True, eq=False)
class ReliableEngine(Counting):
    """State of a queue object. `unanswered` maps tokens of claims that ended without a reply to their workers."""

    keys: ReliableKeys
    config: ReliableConfig
    registered: int = False
    worker: str = field(init=False)
    unanswered: dict[str, str] = field(default_factory=dict)
    tally: Tally | None = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally() if self.config.history else None
        self.worker = self.config.worker or f"{os.uname().nodename}-{os.getpid()}-{nonce()[:8]}"

    @property
    def name(self) -> str:
        return self.keys.name

    @property
    def prefix(self) -> bytes:
        return self.keys.prefix

    @property
    def retry_budget_s(self) -> float:
        return seconds("retry_budget", self.config.retry_budget)

    @property
    def beat_s(self) -> float | None:
        return seconds("timeout", self.config.timeout)

    @property
    def gauged(self) -> dict[str, str | bytes]:
        return {"kind": "reversed", "ready": self.keys.queue}

    def keep(self, result: Any) -> None:
        """Treat a granted lease like a claim without a reply: the caller does not get it."""
        if isinstance(result, Lease) and result.token:
            self.unanswered[result.token] = result.owner
