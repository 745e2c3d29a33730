"""Decide what happens to the lease of a failed step: kept while Dagster will retry, nacked after the last attempt.

The lease is released when the run or the process of the step is terminated, by Dagster's "Terminate" or by SIGTERM:
that is no failure. Every other error that ends a step counts as a failure: `sys.exit`, too, and the end of a run that
exceeded its maximum runtime, which may be due to a message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rmq_core import LeasedConfig
from rmq_core.reports import LeaseInfo
from rmq_core.work import Settleable, conclude
from rmq_dagster import runs

RETRY_MARGIN_S = 600  # a retry waits for a daemon, a slot and a process before it claims
CLOSING_S = 5  # settling takes milliseconds, unless the closed step holds a lock
CLOCKS_S = 30  # how far the clocks of this machine and of Redis may be apart


def kept_s(config: LeasedConfig, delay_s: float) -> float:
    """Return how long to keep a lease for a retry: longer than a heartbeat extends it, so that `is_kept` detects it."""
    return delay_s + RETRY_MARGIN_S + _lease_s(config)


def is_kept(lease: LeaseInfo, config: LeasedConfig) -> bool:
    """Return whether a lease is kept for a retry and not in use: its deadline is later than a heartbeat sets it.

    Return False for a kept lease that is close to its deadline.
    """
    return lease.deadline is not None and lease.deadline.timestamp() - time.time() > _lease_s(config) + CLOCKS_S


def _lease_s(config: LeasedConfig) -> float:
    return float(config.lease_ms) / 1000 if config.lease is not None else 0.0


@contextmanager
def concluding(context: runs.StepContext, held: Settleable, config: LeasedConfig) -> Iterator[None]:
    """Settle or keep the lease when the block fails, then raise the block's error.

    Raise the same error if Redis is unreachable; the lease then expires.
    """
    try:
        yield
    except GeneratorExit as closed:
        # The garbage collector closes the generator of a step at any point, even while this thread writes to Dagster's
        # event log and holds its lock. Another thread can wait for that lock; this one would wait for itself.
        settling = threading.Thread(target=_report, args=(context, held, config, closed), name="rmq-conclude")
        settling.start()
        settling.join(CLOSING_S)
        raise
    except BaseException as error:
        _report(context, held, config, error)
        raise


def _report(context: runs.StepContext, held: Settleable, config: LeasedConfig, error: BaseException) -> None:
    context.log.info("The lease %r is %s", held.lease.id, _conclude(context, held, config, error))


def _conclude(context: runs.StepContext, held: Settleable, config: LeasedConfig, raised: BaseException) -> str:
    # A separate function: a variable that holds the error after its except block would create a reference cycle and
    # so keep the failed step in memory.
    error = runs.failure_of(context, raised)
    ended = runs.is_interrupted(context, error)
    if ended and runs.timed_out(context.instance, context.run.run_id):
        delay, reason, ended = runs.run_retry_delay(context), "the run exceeded its maximum runtime", False
    else:
        delay, reason = None if ended else runs.retry_delay(context, error), _reason(error)
    keep_s = None if delay is None else kept_s(config, delay)
    how = conclude(held, reason, keep_s=keep_s, retried=delay is not None, blameless=ended)
    return f"{how}: the run, or its process, was ended" if ended else how


def _reason(error: BaseException) -> str:
    if isinstance(error, GeneratorExit):
        return "the result could not be stored"
    if isinstance(error, dg.RetryRequested) and error.__cause__:
        error = error.__cause__  # the error for which Dagster's policy, or the step, requested a retry
    text = str(error)
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__
