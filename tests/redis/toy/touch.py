"""A verb as small as one can be: an operation, which needs no script, its record, and a list that has the method."""

from __future__ import annotations

from rmq_core.admin.verbs import Verb
from rmq_core.exchange import Command, Exchange
from rmq_core.kernel.base import Method
from rmq_core.reliable.queue import ReliableAdminMethods
from rmq_core.reliable.state import ReliableEngine

TOUCH = Verb(
    "touch", "touch", "message", "way to touch a message",
    label="Touch", picture="flag", states=("ready",), asks="Touch {it}?", warns=True,
    explains="Touch messages of {queue}. One that was touched stays so.",
    answer=lambda changed: {"touched": changed},
    done="touched {messages} of {queue}", outcome="messages touched: {touched:d}", past="touched",
)  # fmt: skip


def touch(engine: ReliableEngine, message_id: str) -> Exchange[bool]:
    """Return whether this message was touched for the first time."""
    return bool((yield Command(("SADD", engine.prefix + b"touched", message_id))))


class ToyAdminMethods(ReliableAdminMethods):
    """What operators do with a queue of the toy discipline."""

    touch = Method(touch)
