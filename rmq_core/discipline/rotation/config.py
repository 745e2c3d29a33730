"""The settings of a rotation queue: one frozen value, validated when it is created."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rmq_core.errors import ConfigurationError
from rmq_core.policy import seconds, whole
from rmq_core.protocol import Capabilities

DISCIPLINE = "rotation"
CAPABILITIES = Capabilities(auto_reclaim=True, partial_settle=True, batch=True, payload="id", order="rotation")


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationConfig:
    """Settings of a RotationQueue. Durations are seconds or timedelta.

    timeout: an id that was popped more than this many whole seconds ago and is not done is late and handed out again.
    max_id_bytes: the largest size of an id. Ids should be short, because each pop moves entries of the list.
    retry_budget: how long a call is retried while Redis does not answer.
    """

    timeout: timedelta | float = 30
    max_id_bytes: int = 1024
    retry_budget: timedelta | float = 30

    def __post_init__(self) -> None:
        if seconds("timeout", self.timeout) % 1:
            raise ConfigurationError(f"timeout must be whole seconds, as stamps are, not {self.timeout!r}")
        seconds("retry_budget", self.retry_budget, minimum=0.001)
        whole("max_id_bytes", self.max_id_bytes, minimum=1)

    @property
    def timeout_s(self) -> int:
        return int(seconds("timeout", self.timeout))
