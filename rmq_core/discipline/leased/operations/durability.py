"""Waiting until replicas, or the AOF, have what a call wrote: what `durability` adds to publish and ack."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.errors import NotDurable
from rmq_core.exchange import Call


def confirming(engine: LeasedEngine, call: Call) -> Call:
    """The call with the command that confirms it behind it; as it is when nothing is to be waited for."""
    durability = engine.config.durability
    return call if durability is None else call._replace(confirm=durability.command())


def apart(call: Call, reply: Any) -> tuple[Any, Any]:
    """The reply of a call, and that of its confirmation."""
    return reply if call.confirm else (reply, None)


def check(engine: LeasedEngine, done: str, confirmed: Any) -> None:
    """Raise NotDurable when too few have what was done; it is done all the same."""
    durability = engine.config.durability
    if durability is None:
        return
    if isinstance(confirmed, Exception) or not durability.confirmed(confirmed):
        raise NotDurable(f"{done} in queue {engine.keys.name!r}, but {durability} was not confirmed: {confirmed}")
