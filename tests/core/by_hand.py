"""Drive exchanges by hand: no Redis, no driver, only requests and the replies that a test makes up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from rmq_core.exchange import Exchange, Want

R = TypeVar("R")


def step(exchange: Exchange[Any], reply: Any) -> Want:
    """Answer the present request; throw the reply if it is an exception. The operation must continue."""
    try:
        return exchange.throw(reply) if isinstance(reply, BaseException) else exchange.send(reply)
    except StopIteration as stop:
        raise AssertionError(f"it ended with {stop.value!r} instead of asking again") from None


def drive(exchange: Exchange[R], replies: Iterable[Any]) -> tuple[R, list[Any]]:
    """Answer each request with the next reply; return the result, and the requests. Every reply must be used."""
    wants: list[Any] = []
    waiting = list(replies)
    try:
        want = next(exchange)
        while True:
            wants.append(want)
            assert waiting, f"nothing left to answer {want!r} with"
            reply = waiting.pop(0)
            want = exchange.throw(reply) if isinstance(reply, BaseException) else exchange.send(reply)
    except StopIteration as stop:
        assert not waiting, f"replies left over: {waiting!r}"
        return stop.value, wants
