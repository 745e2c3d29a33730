"""Drive the operations of a leased queue by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, TypeVar

from rmq_core.envelope import codec
from rmq_core.envelope.codec import Message, MessageRef, Payload
from rmq_core.envelope.payloads import encode_payload
from rmq_core.events import OnEvent
from rmq_core.exchange import Call, Exchange
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.leased.config import LeasedConfig
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease
from tests.core.by_hand import drive

R = TypeVar("R")
TOKEN = "7.abc"


def engine(*, on_event: OnEvent | None = None, registered: bool = True, **settings: Any) -> LeasedEngine:
    """Return an engine of the queue `q`, by default one that has registered its name before."""
    made = LeasedEngine(LeasedKeys("q"), LeasedConfig(**settings), on_event, registered)
    made.look_at = inf  # it has read the settings that are stored with the queue
    return made


def result(exchange: Exchange[R], *replies: Any) -> R:
    """Return what the operation returns after these replies."""
    return drive(exchange, replies)[0]


def asked(exchange: Exchange[Any], *replies: Any) -> list[Any]:
    """Return the requests of the operation, given these replies."""
    return drive(exchange, replies)[1]


def given(call: Any, *names: str) -> list[Any]:
    """Return values of a call, by the names that its script has for them."""
    assert isinstance(call, Call)
    return [call.given[name] for name in names]


def scripts(wants: Sequence[Any]) -> list[str]:
    """Return the names of the scripts that were called."""
    return [want.script.name.removeprefix("leased/") for want in wants if isinstance(want, Call)]


def envelope(payload: Payload, message_id: str = "m", deliveries: int = 0, history: bytes = b"") -> bytes:
    """Return a message as the server stores it, enqueued at second 1 of 1970."""
    kind, data = encode_payload(payload)
    return b"%d 1000 %d %b%b" % (deliveries, len(history), history, codec.body(message_id, kind, data))


def envelopes(count: int) -> list[bytes]:
    return [envelope(f"p{number}", f"m{number}") for number in range(count)]


def held(count: int = 1, *, lease_id: str = "job", in_memory: bool = True, **fields: Any) -> Lease:
    """Return a lease of the queue `q`."""
    about = {"deadline_ms": 5000, "token": TOKEN, "named": not lease_id.startswith("~"), **fields}
    kept = envelopes(count) if in_memory else None
    return Lease("q", lease_id, "me", count, envelopes=kept, **about)


def ref(index: int, lease_id: str = "job") -> MessageRef:
    return MessageRef(lease_id, index, f"m{index}")


def payloads(messages: Iterable[Message]) -> list[Payload]:
    return [message.payload for message in messages]


def claimed(count: int = 1, limit: int | None = None, deadline: str = "5000", acked: str = "") -> list[Any]:
    """Return the reply of a granted claim; with `acked`, of one by claim_next."""
    head = f"claimed 7.abc {deadline} {count} {limit or count} 0 0{acked}"
    return [head.encode(), [], [envelopes(count)]]
