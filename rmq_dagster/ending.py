"""How a step that fails leaves its lease: kept while Dagster will retry, nacked after the last try.

It is given back only when somebody ends the run: whatever else ends a step, `sys.exit` too, is a failure that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import dagster as dg

from rmq_core import Lease, RedisMessageQueueError
from rmq_dagster import runs

RETRY_MARGIN_S = 600  # a retry waits for a daemon, a slot and a process before it claims


class Held(Protocol):
    """What is held; each verb returns False when nothing of it was left."""

    @property
    def lease(self) -> Lease:
        """The lease."""

    def keep(self, seconds: float) -> bool:
        """Hold it for a retry."""

    def give_up(self, reason: str) -> bool:
        """Nack what is left."""

    def give_back(self) -> bool:
        """Release what is left."""


@contextmanager
def concluding(context: runs.StepContext, held: Held) -> Iterator[None]:
    """What becomes of the lease when the block fails. Redis being away then hides nothing: the lease will expire."""
    try:
        yield
    except BaseException as error:
        try:
            outcome = _conclude(context, held, error)
        except RedisMessageQueueError as trouble:
            outcome = f"left to expire: {trouble}"
        context.log.info("The lease %r is %s", held.lease.id, outcome)
        raise


def _conclude(context: runs.StepContext, held: Held, raised: BaseException) -> str:
    error = runs.failure_of(context, raised)
    if runs.is_interrupted(context, error):
        return "given back: the run was interrupted" if held.give_back() else "not ours any more"
    delay = runs.retry_delay(context, error)
    if delay is not None:
        return "kept for the retry" if held.keep(delay + RETRY_MARGIN_S) else "gone before the retry"
    return "nacked: this was the last attempt" if held.give_up(_reason(error)) else "not ours any more"


def _reason(error: BaseException) -> str:
    if isinstance(error, GeneratorExit):
        return "the result could not be stored"
    if isinstance(error, dg.RetryRequested) and error.__cause__:
        error = error.__cause__  # Dagster's policy, or the step, asked for retries because of it
    return f"{type(error).__name__}: {error}"[:500]
