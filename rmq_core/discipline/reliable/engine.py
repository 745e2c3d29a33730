"""The state that the operations of one queue share: its keys, its settings, the name of this worker. No IO."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from rmq_core.discipline.reliable.config import ReliableConfig
from rmq_core.discipline.reliable.keys import ReliableKeys
from rmq_core.envelope.ids import nonce
from rmq_core.policy import seconds


@dataclass(slots=True, eq=False)
class ReliableEngine:
    """State of a queue object. `unanswered` maps tokens of claims that ended without a reply to their workers."""

    keys: ReliableKeys
    config: ReliableConfig
    registered: int = False
    worker: str = field(init=False)
    unanswered: dict[str, str] = field(default_factory=dict)
    tally: None = field(default=None, init=False)  # it keeps no history

    def __post_init__(self) -> None:
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
