"""A verb as small as one can be: an operation, which needs no script, its record, and a list that has the method."""

from __future__ import annotations

from typing import Any

from rmq_core.admin.verbs import Argument, Verb
from rmq_core.exchange import Command, Exchange
from rmq_core.kernel.base import Method
from rmq_core.reliable.queue import ReliableAdmin
from rmq_core.reliable.state import ReliableEngine

TOUCH = Verb(
    "touch", "touch", "message", "way to touch a message",
    takes=(
        Argument("finger", "Which finger touches it.", required=True),
        Argument("touches", "How often.", int, least=1, option="--times"),
    ),
    label="Touch", picture="flag", states=("ready",), asks="Touch {it}?", warns=True,
    explains="Touch messages of {queue}. One that was touched stays so.",
    answer=lambda changed: {"touched": changed},
    done="touched {messages} of {queue} with the {finger}", outcome="messages touched: {touched:d}", past="touched",
)  # fmt: skip


def touch(engine: ReliableEngine, message_id: str, finger: str, touches: int = 1) -> Exchange[bool]:
    """Return whether this message was touched for the first time."""
    return bool((yield Command(("HSETNX", engine.prefix + b"touched", message_id, f"{finger} {touches}"))))


class ToyAdmin(ReliableAdmin[Any]):
    """What operators do with a queue of the toy discipline."""

    touch = Method(touch)
