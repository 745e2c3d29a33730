"""The settings of RedisMessageQueue and RedisGateway, how they are checked, its errors and events.

A wrong type is a TypeError, a wrong value a ConfigurationError; both name the parameter. A bool does not count as a
number, because `max_delivery_count=True` is a mistake.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, TypeVar

from redis import exceptions as redis_errors

from rmq_core.envelope.payloads import encode_text
from rmq_core.errors import (
    ConfigurationError,
    PayloadTooDeep,
    PayloadTooLarge,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
    ScriptFailed,
    WrongKeyType,
)
from rmq_core.exchange import Patience
from rmq_core.leased.config import LeasedConfig
from rmq_core.policy import Overflow


class LuaScriptError(redis_errors.ResponseError, RedisMessageQueueError):
    """A script of RMQ refused to run, for example because a key of the queue holds a value of another type."""


class RetryBudgetExhaustedError(redis_errors.RedisError, RedisMessageQueueError):
    """Redis did not answer within the retry budget; the last failure is the cause."""


def in_redis_terms(error: RedisMessageQueueError, *, resent: bool) -> Exception:
    """Return the error that users of RedisMessageQueue expect: redis-py's own, or one of the classes above."""
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else None
    named: Exception = error
    if isinstance(error, QueueUnavailable) and cause is not None:
        named = RetryBudgetExhaustedError(f"the retry budget is spent: {cause}") if resent else cause
    elif isinstance(error, WrongKeyType | QueueFull | ScriptFailed) and cause is not None:
        named = LuaScriptError(str(cause))
    elif isinstance(error, ConfigurationError) and isinstance(cause, redis_errors.RedisError):
        named = cause
    if named is not error and named is not cause:
        named.__cause__ = cause
    return named


class EventOperation(StrEnum):
    """The steps of messages and leases of a RedisMessageQueue; other queues emit an Operation."""

    PUBLISH = "publish"
    PUBLISH_DEDUP_HIT = "publish_dedup_hit"
    CLAIM = "claim"
    CLAIM_EMPTY = "claim_empty"
    CLAIM_RECLAIM = "claim_reclaim"
    ACK = "ack"
    NACK = "nack"
    DLQ = "dlq"
    COMPLETED = "completed"
    FAILED = "failed"
    LEASE_RENEW = "lease_renew"
    LEASE_RENEW_FAILED = "lease_renew_failed"
    HEARTBEAT_STOP_TIMEOUT = "heartbeat_stop_timeout"
    STALE_LEASE_ACK = "stale_lease_ack"
    STALE_LEASE_NACK = "stale_lease_nack"
    CLEANUP_FAILED = "cleanup_failed"
    TRIM_FAILED = "trim_failed"
    RETRY_ATTEMPT = "retry_attempt"
    RETRY_EXHAUSTED = "retry_exhausted"


T = TypeVar("T")


def flag(parameter: str, value: object) -> None:
    """Accept only True and False."""
    if not isinstance(value, bool):
        raise TypeError(f"'{parameter}' must be True or False, not {_kind(value)}")


def whole(parameter: str, value: object, *, minimum: int = 1) -> None:
    """Accept only a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"'{parameter}' must be a whole number, not {_kind(value)}")
    if value < minimum:
        raise ConfigurationError(f"'{parameter}' must be at least {minimum}, not {value}")


def whole_or_none(parameter: str, value: object) -> None:
    """Accept only a positive whole number or None."""
    if value is not None:
        whole(parameter, value)


def number(parameter: str, value: object, *, positive: bool = False) -> None:
    """Accept only a finite number that is not negative or, if `positive`, above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"'{parameter}' must be a number, not {_kind(value)}")
    if not isfinite(value) or value < 0 or (positive and value == 0):
        raise ConfigurationError(
            f"'{parameter}' must be a finite number {'above' if positive else 'from'} 0, not {value}"
        )


def text(parameter: str, value: object) -> None:
    """Accept only a str with visible characters and without a null byte."""
    if not isinstance(value, str):
        raise TypeError(f"'{parameter}' must be a str, not {_kind(value)}")
    if not value.strip() or "\0" in value:
        raise ConfigurationError(f"'{parameter}' must hold visible characters and no null byte, not {value!r}")


def callback(parameter: str, value: object, *, asynchronous: bool | None) -> None:
    """Accept only a callable; `asynchronous` states whether it must be async, None accepts both kinds."""
    if not callable(value):
        raise TypeError(f"'{parameter}' must be callable, not {_kind(value)}")
    later = inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None))  # noqa: B004  an object whose call is async
    if asynchronous is True and not later:
        raise TypeError(f"'{parameter}' must be an async callable here; rmq_core.RedisMessageQueue takes plain ones")
    if asynchronous is False and later:
        raise TypeError(f"'{parameter}' is an async callable; use RedisMessageQueue of rmq_core.asyncio")


def instance(parameter: str, value: object, kind: type, example: str) -> None:
    """Accept only an instance of `kind`; `example` is shown in the error."""
    if not isinstance(value, kind):
        raise TypeError(f"'{parameter}' must be a {kind.__name__}, for example {example}, not {_kind(value)}")


def plain(parameter: str, value: T) -> T:
    """Return the result of a callback. Raise TypeError for an awaitable, which the blocking queue cannot await."""
    if not inspect.isawaitable(value):
        return value
    dispose(value)
    raise TypeError(f"'{parameter}' returned an awaitable; use RedisMessageQueue of rmq_core.asyncio")


def dispose(value: Any) -> None:
    """Close or cancel an awaitable that will never be awaited; leave any other value alone."""
    if inspect.isawaitable(value) and (end := getattr(value, "close", None) or getattr(value, "cancel", None)):
        end()


def _kind(value: object) -> str:
    return type(value).__name__


_JSON = (str, bool, int, float, type(None))


@dataclass(frozen=True, slots=True)
class PayloadRules:
    """The payloads that a queue accepts. `strict` also refuses types that JSON only converts, such as tuples."""

    max_bytes: int | None = None
    max_depth: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        whole_or_none("max_payload_bytes", self.max_bytes)
        whole_or_none("max_payload_depth", self.max_depth)
        flag("strict_payload_types", self.strict)

    def serialize(self, message: object) -> str:
        """Return the text that is stored and delivered.

        Raises TypeError for a message that is neither str nor dict, for keys that are not str and for values that JSON
        cannot hold; ValueError (PayloadError) for NaN, infinities and lone surrogates; PayloadTooLarge, PayloadTooDeep.
        """
        if isinstance(message, str):
            text = message
        elif isinstance(message, dict):
            _check_keys(message, "message", strict=self.strict)
            text = json.dumps(message, sort_keys=True, allow_nan=False)
            if self.max_depth is not None and _depth(message) > self.max_depth:
                raise PayloadTooDeep(f"the message nests deeper than max_payload_depth={self.max_depth}; flatten it")
        else:
            raise TypeError(f"'message' must be a str or a dict, not {type(message).__name__}")
        size = len(encode_text(text, "message"))
        if self.max_bytes is not None and size > self.max_bytes:
            raise PayloadTooLarge(f"the message has {size} bytes, max_payload_bytes is {self.max_bytes}")
        return text


def _check_keys(value: Any, path: str, *, strict: bool, inside: tuple[int, ...] = ()) -> None:
    """Raise TypeError for keys that are not str. JSON would convert them: {1: "x"} and {"1": "x"} would be the same.

    Raises ValueError for a value that contains itself and, if `strict`, TypeError for types that JSON does not have.
    """
    if id(value) in inside:
        raise ValueError(f"{path} contains itself")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}; the keys of a message must be str")
        items: Any = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        items = ()
    if strict and not isinstance(value, (dict, list, *_JSON)):
        raise TypeError(f"{path} is a {type(value).__name__}, which JSON does not have; convert it before publishing")
    for key, child in items:
        if strict or isinstance(child, dict | list | tuple):
            _check_keys(child, f"{path}[{key!r}]", strict=strict, inside=(*inside, id(value)))


def _depth(value: Any) -> int:
    if isinstance(value, dict | list | tuple):
        return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


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
        flag("deduplication", self.enabled)
        if self.key_of is not None:
            callback("get_deduplication_key", self.key_of, asynchronous=None if asynchronous else False)
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
    flag(f"enable_{name}_queue", enabled)
    whole_or_none(f"max_{name}_length", cap)
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
        whole_or_none("max_pending_length", self.max_pending)
        if not isinstance(self.policy, str):
            raise TypeError(f"'pending_overload_policy' must be a str, not {type(self.policy).__name__}")
        if self.policy not in POLICIES:
            raise ConfigurationError(
                f"'pending_overload_policy' must be one of {', '.join(POLICIES)}, not {self.policy!r}"
            )
        number("pending_overload_block_timeout_seconds", self.block_s)
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
        whole_or_none(timeout, self.visibility_timeout)
        whole_or_none("max_delivery_count", self.max_count)
        if self.max_count is not None and self.visibility_timeout is None:
            raise ConfigurationError(f"'max_delivery_count' needs '{timeout}': without it, no message is redelivered")
        if self.dead_letter_queue is not None:
            text("dead_letter_queue", self.dead_letter_queue)
        if (self.max_count is None) != (self.dead_letter_queue is None):
            raise ConfigurationError("'max_delivery_count' and 'dead_letter_queue' need each other")


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """How often the lease of a message is renewed while its handler runs, and a callback for a failed renewal."""

    interval: float | None
    on_failure: Callable[[], Any] | None

    def check(self, *, visibility_timeout: int | None, asynchronous: bool) -> None:
        if self.interval is not None:
            number("heartbeat_interval_seconds", self.interval, positive=True)
            if visibility_timeout is None:
                raise ConfigurationError("'heartbeat_interval_seconds' needs a visibility timeout to renew")
            if self.interval >= visibility_timeout / 2:
                raise ConfigurationError(
                    f"'heartbeat_interval_seconds' must be less than half of the visibility timeout of "
                    f"{visibility_timeout} s, not {self.interval}"
                )
        if self.on_failure is not None:
            callback("on_heartbeat_failure", self.on_failure, asynchronous=None if asynchronous else False)
            if self.interval is None:
                raise ConfigurationError("'on_heartbeat_failure' needs 'heartbeat_interval_seconds'")


def retries(budget: int, longest: float, first: float, interrupted: Callable[[], bool] | None) -> Patience:
    """Return how long and how often a gateway resends a call that Redis did not answer."""
    whole("retry_budget_seconds", budget, minimum=0)
    number("retry_max_delay_seconds", longest, positive=True)
    number("retry_initial_delay_seconds", first, positive=True)
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
        whole("message_deduplication_log_ttl_seconds", self.dedup_ttl)
        whole("message_wait_interval_seconds", self.wait, minimum=0)
        self.delivery.check("message_")
        self.backpressure.check_losses(max_delivery_count=self.delivery.max_count)

    def leased(self) -> LeasedConfig:
        """Return the settings of the leased engine."""
        return LeasedConfig(
            lease=self.delivery.visibility_timeout, max_deliveries=self.delivery.max_count,
            max_ready=self.backpressure.max_pending, overflow=self.backpressure.overflow, dedup_window=self.dedup_ttl,
            max_payload_bytes=_LARGEST_BYTES, max_payload_depth=_DEEPEST, retry_budget=self.patience.budget_s or 1,
        )  # fmt: skip
