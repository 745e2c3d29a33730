"""The settings of a reliable queue: one frozen value, validated when it is created."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rmq_core.errors import ConfigurationError
from rmq_core.policy import milliseconds, seconds, whole
from rmq_core.protocol import Capabilities
from rmq_core.queue.keys import check_name

DISCIPLINE = "reliable"
CAPABILITIES = Capabilities(
    fenced=True, extend=True, dead_letters=True, partial_settle=True, batch=True, headers=True, history=True,
)  # fmt: skip
_DEEPEST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliableConfig:
    """Settings of a ReliableQueue. Durations are seconds or timedelta; sizes are bytes.

    timeout: how long a worker may hold a message, unless it extends, before a reaper considers the worker dead.
    max_deliveries: after this many failed deliveries a message becomes a dead letter; None for no limit.
    worker: the name of this worker, and of its processing list; None generates one from host and process.
    max_dead: how many dead letters are kept. retry_budget: how long a call is retried while Redis does not answer.
    history: whether this client counts for `history` and `totals` what it does.
    """

    timeout: timedelta | float = 600
    max_deliveries: int | None = 10
    worker: str | None = None
    max_payload_bytes: int = 1 << 20
    max_payload_depth: int = 64
    max_dead: int = 100_000
    retry_budget: timedelta | float = 30
    history: bool = True

    def __post_init__(self) -> None:
        for name in ("timeout", "retry_budget"):
            seconds(name, getattr(self, name), minimum=0.001)
        for name in ("max_payload_bytes", "max_payload_depth", "max_dead"):
            whole(name, getattr(self, name), minimum=1)
        if self.max_deliveries is not None:
            whole("max_deliveries", self.max_deliveries, minimum=1)
        if self.worker is not None:
            check_name("worker", self.worker)
        if self.max_payload_depth > _DEEPEST:
            raise ConfigurationError(f"max_payload_depth must be at most {_DEEPEST}, as deep as Python's JSON reads")

    @property
    def timeout_ms(self) -> int:
        return milliseconds("timeout", self.timeout)
