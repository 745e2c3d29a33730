"""Wait until replicas, or the AOF, have the writes of a call: the effect of `durability` on publish and ack."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.errors import NotDurable
from rmq_core.exchange import Call


def confirming(engine: LeasedEngine, call: Call) -> Call:
    """Return the call followed by the command that confirms its writes; unchanged when `durability` is None."""
    durability = engine.config.durability
    return call if durability is None else call._replace(confirm=durability.command())


def apart(call: Call, reply: Any) -> tuple[Any, Any]:
    """Return the reply of a call and the reply of its confirmation, None without one."""
    return reply if call.confirm else (reply, None)


def check(engine: LeasedEngine, done: str, confirmed: Any) -> None:
    """Raise NotDurable when too few replicas or AOF files confirmed the writes; the writes are not undone."""
    durability = engine.config.durability
    if durability is None:
        return
    if isinstance(confirmed, Exception) or not durability.confirmed(confirmed):
        raise NotDurable(f"{done} in queue {engine.keys.name!r}, but {durability} was not confirmed: {confirmed}")
