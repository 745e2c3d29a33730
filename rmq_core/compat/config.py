"""The settings behind the keywords of RedisMessageQueue and RedisGateway: small frozen values, validated once each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rmq_core.compat import checks
from rmq_core.compat.payload import PayloadRules
from rmq_core.discipline.leased.config import LeasedConfig
from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Patience
from rmq_core.policy import Overflow

POLICIES = ("raise", "drop_oldest", "block")
VISIBILITY_TIMEOUT_S = 300
MAX_DELIVERIES = 10
MAX_LOG = 1000
_LARGEST_BYTES = 512 << 20
_DEEPEST = 500


def digest_of_content(message: str | dict[str, Any]) -> str:
    """Return the default deduplication key of a message: a digest of its canonical form."""
    return digest_of_text(PayloadRules().serialize(message))


def digest_of_text(text: str) -> str:
    """Return the digest that `digest_of_content` returns, for a message already in its canonical form."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Deduplication:
    """Which messages count as duplicates: those with the same key from `key_of` or, if it is None, the same text.

    If not enabled, no message counts as a duplicate.
    """

    enabled: bool
    key_of: Callable[[Any], Any] | None

    def check(self, *, asynchronous: bool) -> None:
        checks.flag("deduplication", self.enabled)
        if self.key_of is not None:
            checks.callback("get_deduplication_key", self.key_of, asynchronous=None if asynchronous else False)
        if self.custom and not self.enabled:
            raise ConfigurationError("'get_deduplication_key' needs 'deduplication=True'")

    @property
    def custom(self) -> bool:
        return self.key_of is not None and self.key_of is not digest_of_content


@dataclass(frozen=True, slots=True)
class Logs:
    """How many completed and failed messages are kept: None for all of them, 0 for none."""

    completed: int | None
    failed: int | None


def log_cap(name: str, enabled: object, cap: object) -> int | None:
    """Return how many messages a log keeps, from its two keywords."""
    checks.flag(f"enable_{name}_queue", enabled)
    checks.whole_or_none(f"max_{name}_length", cap)
    if not enabled and cap not in (None, MAX_LOG):
        raise ConfigurationError(f"'max_{name}_length' needs 'enable_{name}_queue=True'")
    return cap if enabled and (cap is None or isinstance(cap, int)) else 0


@dataclass(frozen=True, slots=True)
class Backpressure:
    """How many messages may wait, and what happens to a further one."""

    max_pending: int | None = None
    policy: str = "raise"
    block_s: float = 1.0

    def __post_init__(self) -> None:
        checks.whole_or_none("max_pending_length", self.max_pending)
        if not isinstance(self.policy, str):
            raise TypeError(f"'pending_overload_policy' must be a str, not {type(self.policy).__name__}")
        if self.policy not in POLICIES:
            raise ConfigurationError(
                f"'pending_overload_policy' must be one of {', '.join(POLICIES)}, not {self.policy!r}"
            )
        checks.number("pending_overload_block_timeout_seconds", self.block_s)
        if self.policy != "raise" and self.max_pending is None:
            raise ConfigurationError(f"'pending_overload_policy={self.policy}' needs 'max_pending_length'")

    def check_losses(self, *, deduplication: bool = False, max_delivery_count: int | None = None) -> None:
        """Raise ConfigurationError if dropping messages would break deduplication or dead letters."""
        if self.policy == "drop_oldest" and deduplication:
            raise ConfigurationError(
                "'pending_overload_policy=drop_oldest' cannot be combined with deduplication: "
                "a dropped message could not be published again"
            )
        if self.policy == "drop_oldest" and max_delivery_count is not None:
            raise ConfigurationError(
                "'pending_overload_policy=drop_oldest' cannot be combined with 'max_delivery_count': a message that is "
                "to become a dead letter could be dropped; pass max_delivery_count=None"
            )

    @property
    def overflow(self) -> Overflow:
        block = Overflow.BLOCK(self.block_s)
        return {"raise": Overflow.RAISE, "drop_oldest": Overflow.DROP_OLDEST, "block": block}[self.policy]


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """How long a consumer may hold a message, and how often it is delivered.

    visibility_timeout: None means that the consumer holds it for ever, so it is delivered at most once.
    """

    visibility_timeout: int | None
    max_count: int | None
    dead_letter_queue: str | None

    def check(self, prefix: str = "") -> None:
        timeout = f"{prefix}visibility_timeout_seconds"
        checks.whole_or_none(timeout, self.visibility_timeout)
        checks.whole_or_none("max_delivery_count", self.max_count)
        if self.max_count is not None and self.visibility_timeout is None:
            raise ConfigurationError(f"'max_delivery_count' needs '{timeout}': without it, no message is redelivered")
        if self.dead_letter_queue is not None:
            checks.text("dead_letter_queue", self.dead_letter_queue)
        if (self.max_count is None) != (self.dead_letter_queue is None):
            raise ConfigurationError("'max_delivery_count' and 'dead_letter_queue' need each other")


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """How often the lease of a message is renewed while its handler runs, and a callback for a failed renewal."""

    interval: float | None
    on_failure: Callable[[], Any] | None

    def check(self, *, visibility_timeout: int | None, asynchronous: bool) -> None:
        if self.interval is not None:
            checks.number("heartbeat_interval_seconds", self.interval, positive=True)
            if visibility_timeout is None:
                raise ConfigurationError("'heartbeat_interval_seconds' needs a visibility timeout to renew")
            if self.interval >= visibility_timeout / 2:
                raise ConfigurationError(
                    f"'heartbeat_interval_seconds' must be less than half of the visibility timeout of "
                    f"{visibility_timeout} s, not {self.interval}"
                )
        if self.on_failure is not None:
            checks.callback("on_heartbeat_failure", self.on_failure, asynchronous=None if asynchronous else False)
            if self.interval is None:
                raise ConfigurationError("'on_heartbeat_failure' needs 'heartbeat_interval_seconds'")


def retries(budget: int, longest: float, first: float, interrupted: Callable[[], bool] | None) -> Patience:
    """Return how long and how often a gateway resends a call that Redis did not answer."""
    checks.whole("retry_budget_seconds", budget, minimum=0)
    checks.number("retry_max_delay_seconds", longest, positive=True)
    checks.number("retry_initial_delay_seconds", first, positive=True)
    if first > longest:
        raise ConfigurationError("'retry_initial_delay_seconds' must not exceed 'retry_max_delay_seconds'")
    return Patience(budget or None, first, longest, interrupted)


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """All settings of a gateway."""

    delivery: DeliverySettings
    backpressure: Backpressure
    patience: Patience
    dedup_ttl: int = 3600
    wait: int = 5

    def __post_init__(self) -> None:
        checks.whole("message_deduplication_log_ttl_seconds", self.dedup_ttl)
        checks.whole("message_wait_interval_seconds", self.wait, minimum=0)
        self.delivery.check("message_")
        self.backpressure.check_losses(max_delivery_count=self.delivery.max_count)

    def leased(self) -> LeasedConfig:
        """Return the settings of the leased engine."""
        return LeasedConfig(
            lease=self.delivery.visibility_timeout,
            max_deliveries=self.delivery.max_count,
            max_ready=self.backpressure.max_pending,
            overflow=self.backpressure.overflow,
            dedup_window=self.dedup_ttl,
            max_payload_bytes=_LARGEST_BYTES,
            max_payload_depth=_DEEPEST,
            retry_budget=self.patience.budget_s or 1,
        )
