"""Retry policy after a lost connection, shared by both drivers. Call slots make resends idempotent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import tenacity

from rmq_core.errors import QueueUnavailable, hopeless, translate
from rmq_core.exchange import Interrupted, Patience
from rmq_core.exchange.frames import MOVING, NOT_RETRYABLE, RETRYABLE, Plan

LOOK_S = 0.1
"""Interval at which a waiting driver polls `given_up`."""
NOTHING: tuple[Any, ...] = (None, [], {})
"""The replies of a blocking command, sent in its form that does not block, that has found nothing."""
_ASIDE_S, _REST_S, _MOVING_S = 0.5, 10.0, 0.1
_resting: WeakKeyDictionary[Any, float] = WeakKeyDictionary()


def aside() -> Patience:
    """Return the patience of a command that must not hold up its operation: half a second for all attempts."""
    until = monotonic() + _ASIDE_S
    return Patience(_ASIDE_S, given_up=lambda: monotonic() >= until)


def rests(client: Any) -> bool:
    """Return whether a command aside of this client failed in the last ten seconds, so that none is sent now."""
    return monotonic() < _resting.get(client, 0.0)


def rest(client: Any) -> None:
    """Send no command aside for ten seconds, because each could take until a timeout."""
    _resting[client] = monotonic() + _REST_S


def failed(error: Exception) -> Exception:
    """Return the error of a request at one of several shards, which is not raised."""
    return QueueUnavailable("the node did not answer in time") if isinstance(error, Interrupted) else translate(error)


def terms(patience: Patience) -> dict[str, Any]:
    """Return the arguments for tenacity, which is used only after a first failure."""
    stop: Any = tenacity.stop_after_delay(patience.budget_s or 0)
    if patience.given_up is not None:
        stop |= lambda _: patience.over
    usual = tenacity.wait_exponential(multiplier=patience.first_s, max=patience.longest_s) + tenacity.wait_random(
        0, 2.5 * patience.first_s
    )

    def pause_s(state: tenacity.RetryCallState) -> float:
        """Return a short pause while a slot moves: to refuse a call costs its node little."""
        return min(usual(state), _MOVING_S) if isinstance(failure_of(state), MOVING) else usual(state)

    return {
        "stop": stop,
        "wait": pause_s,
        "retry": tenacity.retry_if_exception(_is_transient),
        "before_sleep": lambda state: notice(patience, failure_of(state)),
        "reraise": True,
    }


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, RETRYABLE) and not isinstance(error, NOT_RETRYABLE) and not hopeless(error)


def failure_of(state: tenacity.RetryCallState) -> Any:
    """Return the error of the attempt that has just failed."""
    return state.outcome.exception() if state.outcome else None


def notice(patience: Patience, error: Exception) -> None:
    if patience.noticed is not None:
        patience.noticed(error)


def naps(patience: Patience, seconds: float) -> list[float]:
    """Split a sleep into parts, so that `given_up` is polled between them."""
    if patience.given_up is None:
        return [seconds]
    whole, rest = divmod(seconds, LOOK_S)
    return [LOOK_S] * int(whole) + [rest]


def looks(planned: Plan, polling: deque[None]) -> Iterator[float]:
    """Yield the growing pauses of a wait that polls, until it is over. Raise Interrupted when the caller gives up.

    polling: has an entry for each such wait. All of them together make 200 looks a second, or one each if they are
    more.
    """
    polling.append(None)
    try:
        until, pause_s = monotonic() + planned.block_ms / 1000, 0.005
        while (left := until - monotonic()) > 0:
            if planned.given_up is not None and planned.given_up():
                raise Interrupted
            yield min(pause_s, left)
            pause_s = min(2 * pause_s, max(LOOK_S, len(polling) / 200), 1)
    finally:
        polling.pop()


def clients_own(client: Any) -> Any | None:
    """Return the client's own redis-py retry policy, which resends commands on its connections."""
    pool = getattr(client, "connection_pool", None)
    return getattr(pool, "connection_kwargs", {}).get("retry")


def failed_once(error: Exception, send: Callable[[], Any]) -> Callable[[], Any]:
    """Return `send`, changed so that its first call raises `error`, the failure of the attempt already made."""
    before = [error]

    def attempt() -> Any:
        if before:
            raise before.pop()
        return send()

    return attempt
