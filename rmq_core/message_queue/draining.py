"""Ending the work of one queue object, as steps."""

from __future__ import annotations

import logging
from functools import partial
from math import inf
from time import monotonic

from rmq_core.message_queue import checks
from rmq_core.message_queue.body import Body
from rmq_core.message_queue.steps import Steps, Whole

_log = logging.getLogger("rmq")
_LOOK_S = 0.01


def drain(body: Body, timeout: float | None) -> Steps[bool]:
    """Refuse new work, let publishes end, give back claims without an answer; True when nothing is left."""
    if timeout is not None:
        checks.number("timeout", timeout)
    gate = body.gate
    gate.draining = True
    until = inf if timeout is None else monotonic() + timeout
    while gate.others(gate.publishing) or (timeout != 0 and gate.others(gate.claiming)):
        if monotonic() >= until:
            return False
        yield partial(gate.world.pause, min(_LOOK_S, until - monotonic()))
    gate.drained = True
    return (yield from recover(body, until, look_only=timeout == 0))


def recover(body: Body, until: float, *, look_only: bool = False) -> Steps[bool]:
    """Give back what claims took whose answer never came; True when there is nothing of the kind."""
    if body.channel is None or not body.channel.unanswered:
        return True
    if look_only:
        return False
    try:
        left = None if until == inf else max(0.0, until - monotonic())
        recovered: bool = yield Whole(partial(body.gateway.recover_claims, body.key.processing, left))
    except Exception as error:  # noqa: BLE001  drain can be called again
        _log.warning("claims without an answer could not be given back: %s", error)
        recovered = False
    yield from body.teller.noted()
    return recovered
