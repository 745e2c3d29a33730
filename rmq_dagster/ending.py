"""How a step that fails leaves its lease: kept while Dagster will retry, nacked after the last try.

It is given back when somebody ends the run or the process of the step, by Dagster's "Terminate" or by SIGTERM: that is
no failure. Whatever else ends a step, `sys.exit` too, is a failure that counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import dagster as dg

from rmq_core import Lease, LeasedConfig, LeaseInfo, RedisMessageQueueError
from rmq_dagster import runs

RETRY_MARGIN_S = 600  # a retry waits for a daemon, a slot and a process before it claims
CLOCKS_S = 30  # how far the clocks of this machine and of Redis may be apart


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


def kept_s(config: LeasedConfig, delay_s: float) -> float:
    """How long a lease is kept for a retry: longer than any heartbeat would hold it, by which it can be told."""
    return delay_s + RETRY_MARGIN_S + _lease_s(config)


def is_kept(lease: LeaseInfo, config: LeasedConfig) -> bool:
    """Whether a lease is kept for a retry and not worked on; False also where that can no longer be told."""
    return lease.deadline is not None and lease.deadline.timestamp() - time.time() > _lease_s(config) + CLOCKS_S


def _lease_s(config: LeasedConfig) -> float:
    return float(config.lease_ms) / 1000 if config.lease is not None else 0.0


@contextmanager
def concluding(context: runs.StepContext, held: Held, config: LeasedConfig) -> Iterator[None]:
    """What becomes of the lease when the block fails. Redis being away then hides nothing: the lease will expire."""
    try:
        yield
    except BaseException as error:
        try:
            outcome = _conclude(context, held, config, error)
        except RedisMessageQueueError as trouble:
            outcome = f"left to expire: {trouble}"
        context.log.info("The lease %r is %s", held.lease.id, outcome)
        raise


def _conclude(context: runs.StepContext, held: Held, config: LeasedConfig, raised: BaseException) -> str:
    error = runs.failure_of(context, raised)
    if runs.is_interrupted(context, error):
        return "given back: the run, or its process, was ended" if held.give_back() else "not ours any more"
    delay = runs.retry_delay(context, error)
    if delay is not None:
        return "kept for the retry" if held.keep(kept_s(config, delay)) else "gone before the retry"
    return "nacked: this was the last attempt" if held.give_up(_reason(error)) else "not ours any more"


def _reason(error: BaseException) -> str:
    if isinstance(error, GeneratorExit):
        return "the result could not be stored"
    if isinstance(error, dg.RetryRequested) and error.__cause__:
        error = error.__cause__  # Dagster's policy, or the step, asked for retries because of it
    return f"{type(error).__name__}: {error}"[:500]
