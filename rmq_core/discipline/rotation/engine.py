"""The state that the operations of one queue share: its keys and its settings. No IO."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmq_core.discipline.rotation.config import RotationConfig
from rmq_core.discipline.rotation.keys import RotationKeys
from rmq_core.policy import seconds


@dataclass(slots=True, eq=False)
class RotationEngine:
    """State of a queue object."""

    keys: RotationKeys
    config: RotationConfig
    registered: int = False
    tally: None = field(default=None, init=False)  # it keeps no history

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
        return None  # no heartbeats: a stamp cannot be extended
