"""The exit codes, and the error messages that go with them on stderr."""

from __future__ import annotations

from enum import IntEnum

from rmq_core.cli.output import complain
from rmq_core.errors import (
    ConfigurationError,
    PayloadError,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
    Unsupported,
)
from rmq_core.reports import PublishReport


class Exit(IntEnum):
    """The exit codes of `rmq`."""

    DONE = 0
    FAILED = 1
    """RMQ or Redis refused, a consumed message failed, or the doctor found something to change."""
    USAGE = 2
    """A parameter cannot work, or the discipline cannot do this."""
    UNAVAILABLE = 3
    """Redis did not answer."""
    FULL = 4
    """The queue has no room; the error message states how many messages were stored before."""


def report(error: RedisMessageQueueError) -> Exit:
    """Write an error to stderr and return the exit code for it."""
    complain(str(error))
    if isinstance(error.report, PublishReport):
        complain(f"stored before that: {error.report.accepted}")
    if isinstance(error, ConfigurationError | Unsupported | PayloadError):
        return Exit.USAGE
    if isinstance(error, QueueUnavailable):
        return Exit.UNAVAILABLE
    return Exit.FULL if isinstance(error, QueueFull) else Exit.FAILED
