"""How a step that fails leaves its lease: kept while Dagster will retry, nacked after the last try.

It is given back when somebody ends the run or the process of the step, by Dagster's "Terminate" or by SIGTERM: that is
no failure. Whatever else ends a step, `sys.exit` too, is a failure that counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rmq_core import LeasedConfig, LeaseInfo
from rmq_core.work import Settleable, conclude
from rmq_dagster import runs

RETRY_MARGIN_S = 600  # a retry waits for a daemon, a slot and a process before it claims
CLOCKS_S = 30  # how far the clocks of this machine and of Redis may be apart


def kept_s(config: LeasedConfig, delay_s: float) -> float:
    """How long a lease is kept for a retry: longer than any heartbeat would hold it, by which it can be told."""
    return delay_s + RETRY_MARGIN_S + _lease_s(config)


def is_kept(lease: LeaseInfo, config: LeasedConfig) -> bool:
    """Whether a lease is kept for a retry and not worked on; False also where that can no longer be told."""
    return lease.deadline is not None and lease.deadline.timestamp() - time.time() > _lease_s(config) + CLOCKS_S


def _lease_s(config: LeasedConfig) -> float:
    return float(config.lease_ms) / 1000 if config.lease is not None else 0.0


@contextmanager
def concluding(context: runs.StepContext, held: Settleable, config: LeasedConfig) -> Iterator[None]:
    """What becomes of the lease when the block fails. Redis being away then hides nothing: the lease will expire."""
    try:
        yield
    except BaseException as error:
        context.log.info("The lease %r is %s", held.lease and held.lease.id, _conclude(context, held, config, error))
        raise


def _conclude(context: runs.StepContext, held: Settleable, config: LeasedConfig, raised: BaseException) -> str:
    # A function of its own: a name for the error that outlived its block would keep the failed step in a cycle.
    error = runs.failure_of(context, raised)
    ended = runs.is_interrupted(context, error)
    delay = None if ended else runs.retry_delay(context, error)
    keep_s = None if delay is None else kept_s(config, delay)
    how = conclude(held, _reason(error), keep_s=keep_s, retried=delay is not None, blameless=ended)
    return f"{how}: the run, or its process, was ended" if ended else how


def _reason(error: BaseException) -> str:
    if isinstance(error, GeneratorExit):
        return "the result could not be stored"
    if isinstance(error, dg.RetryRequested) and error.__cause__:
        error = error.__cause__  # Dagster's policy, or the step, asked for retries because of it
    return f"{type(error).__name__}: {error}"[:500]
