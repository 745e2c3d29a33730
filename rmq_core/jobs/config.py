"""The settings of a job queue and its workers: frozen values, validated once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from rmq_core.envelope.payloads import PayloadLimits
from rmq_core.errors import ConfigurationError
from rmq_core.policy import (
    STORED,
    Backoff,
    Breaker,
    check_all,
    check_breaker,
    exponential,
    milliseconds,
    seconds,
    whole,
)
from rmq_core.protocol import Capabilities

CAPABILITIES = Capabilities(
    fenced=True, extend=True, takeover=True, delay=True, dedup=True, dead_letters=True, auto_reclaim=True,
    partial_settle=True, batch=True, large_leases=True, headers=True,
)  # fmt: skip
REMEMBERED_S, REMEMBERED = 600, 10_000
"""How long, and for how many of a producer's latest ids, a server with IDMP recognises a resent `add`."""
BACKOFF = exponential(base=0.1, cap=30, jitter=0.1)
_LONGEST_BUDGET_S = REMEMBERED_S / 2


class ScriptSettings(NamedTuple):
    """The settings that scripts take, by the names in their headers. breaker: empty for none."""

    max_attempts: int
    max_dead: int
    events_cap: int
    breaker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsConfig(PayloadLimits):
    """Settings of a JobQueue. Durations are seconds or timedelta; sizes are bytes.

    What is marked as STORED can be stored with the queue, by `queue.admin.configure`; then it holds for all programs.

    lease: how long a claim, or a worker that sends no heartbeat, holds a job before other consumers may take it.
    max_attempts: a job that failed this often becomes a dead letter; `add(attempts=)` overrides it for one job.
    backoff: how long a job waits after it failed in a worker; `add(backoff=)` overrides it for one job.
    unique_ttl: how long the id of an `add_unique` stays reserved, counted from the end of its delay.
    settled_ttl: how long the queue remembers that all jobs of a lease id were acked.
    max_dead: how many dead letters are kept.
    pause_after_dead: pause the queue when so many jobs became dead letters within a span of time, as after a bad
    deploy: Breaker(20, timedelta(minutes=10)).
    max_events: how many entries the events stream keeps, 0 for no events.
    result_ttl: how long results are kept.
    retry_budget: how long a call is retried while Redis does not answer.
    history: whether this client, and its worker, counts for `history` and `totals` what it does.
    """

    lease: timedelta | float = 30
    max_attempts: int = field(default=25, metadata=STORED)
    backoff: Backoff = field(default=BACKOFF, metadata=STORED)
    unique_ttl: timedelta | float = field(default=3600, metadata=STORED)
    settled_ttl: timedelta | float = field(default=7 * 86400, metadata=STORED)
    max_dead: int = field(default=100_000, metadata=STORED)
    pause_after_dead: Breaker | None = field(default=None, metadata=STORED)
    max_events: int = field(default=10_000, metadata=STORED)
    result_ttl: timedelta | float = field(default=3600, metadata=STORED)
    retry_budget: timedelta | float = 30
    history: bool = True

    def __post_init__(self) -> None:
        PayloadLimits.__post_init__(self)
        check_all(seconds, self, "lease", "unique_ttl", "settled_ttl", "result_ttl", "retry_budget", minimum=0.001)
        check_all(whole, self, "max_attempts", "max_dead", minimum=1)
        check_breaker(self.pause_after_dead, self.max_dead)
        whole("max_events", self.max_events)
        if seconds("retry_budget", self.retry_budget) > _LONGEST_BUDGET_S:
            raise ConfigurationError(
                f"retry_budget must be at most {_LONGEST_BUDGET_S:.0f} s: later resends are not recognised"
            )
        if not isinstance(self.backoff, Backoff):
            raise ConfigurationError("backoff must be a Backoff, for example exponential(base=1, cap=300)")

    @property
    def for_scripts(self) -> ScriptSettings:
        return ScriptSettings(
            max_attempts=self.max_attempts, max_dead=self.max_dead, events_cap=self.max_events,
            breaker="" if self.pause_after_dead is None else self.pause_after_dead.stored,
        )  # fmt: skip

    @property
    def lease_ms(self) -> int:
        return milliseconds("lease", self.lease)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Settings of a Worker. Durations are seconds or timedelta.

    concurrency: how many handlers run at once. prefetch: how many more jobs a worker may hold while jobs are quick.
    ack_window: how long at most an ack waits to be sent together with others. grace: how long a stopping worker waits
    for running handlers. store_results: store the return values of handlers, for `wait_for_result`. schedule: promote
    delayed jobs and fire repeatable ones.
    """

    concurrency: int = 100
    prefetch: int = 1000
    ack_window: timedelta | float = 0.005
    grace: timedelta | float = 30
    store_results: bool = False
    schedule: bool = True

    def __post_init__(self) -> None:
        whole("concurrency", self.concurrency, minimum=1)
        whole("prefetch", self.prefetch)
        seconds("ack_window", self.ack_window)
        seconds("grace", self.grace)
