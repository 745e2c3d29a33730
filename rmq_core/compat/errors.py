"""Errors that are also redis-py errors, and the translation of the engine's errors into them."""

from __future__ import annotations

from redis import exceptions as redis_errors

from rmq_core.errors import (
    ConfigurationError,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
    ScriptFailed,
    WrongKeyType,
)


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
