"""The settings of a reliable queue: one frozen value, validated when it is created."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rmq_core.envelope.payloads import PayloadLimits
from rmq_core.policy import check_all, milliseconds, seconds, whole
from rmq_core.protocol import Capabilities
from rmq_core.queue.keys import check_name

DISCIPLINE = "reliable"
CAPABILITIES = Capabilities(fenced=True, extend=True, dead_letters=True, partial_settle=True, batch=True, headers=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliableConfig(PayloadLimits):
    """Settings of a ReliableQueue. Durations are seconds or timedelta; sizes are bytes.

    timeout: how long a worker may hold a message, unless it extends, before a reaper considers the worker dead.
    max_deliveries: after this many failed deliveries a message becomes a dead letter; None for no limit.
    worker: the name of this worker, and of its processing list; None generates one from host and process.
    max_dead: how many dead letters are kept. retry_budget: how long a call is retried while Redis does not answer.
    """

    timeout: timedelta | float = 600
    max_deliveries: int | None = 10
    worker: str | None = None
    max_dead: int = 100_000
    retry_budget: timedelta | float = 30

    def __post_init__(self) -> None:
        PayloadLimits.__post_init__(self)
        check_all(seconds, self, "timeout", "retry_budget", minimum=0.001)
        check_all(whole, self, "max_dead", minimum=1)
        check_all(whole, self, "max_deliveries", minimum=1, optional=True)
        if self.worker is not None:
            check_name("worker", self.worker)

    @property
    def timeout_ms(self) -> int:
        return milliseconds("timeout", self.timeout)
