"""Drive the operations of a stream queue by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rmq_core.exchange import Call, Command, Exchange, Listen, Wait
from rmq_core.streams.state import QueueConfig, StreamEngine, engine_of
from tests.core import by_hand

CONFIG = QueueConfig("orders", "billing", "me", block_ms=70)


def engine(*, known: bool = True, on_event: Any = None, **settings: Any) -> StreamEngine:
    """Return an engine whose group is known to exist."""
    config = QueueConfig("orders", "billing", "me", **{"block_ms": 70, **settings})
    made = engine_of(config, None, on_event)
    made.grouped = known
    return made


def drive(exchange: Exchange[Any], *replies: Any) -> tuple[Any, list[Any]]:
    """Answer each request with the next reply, raising those that are exceptions; return result and requests."""
    return by_hand.drive(exchange, replies)


def verbs(wants: Iterable[Any]) -> list[str]:
    """Return the requests: names of commands and of scripts."""
    return [_verb(want) for want in wants]


def _verb(want: Any) -> str:
    if isinstance(want, Wait):
        return f"wait {want.block_ms}, {_verb(want.call)}"
    if isinstance(want, Call):
        return want.script.name
    assert isinstance(want, Command | Listen)
    verb = want.args[0]
    return verb.decode() if isinstance(verb, bytes) else str(verb)


def entries(*payloads: bytes) -> Any:
    """Return the reply of XREADGROUP with entries 1-0, 2-0, ..."""
    return [[b"orders", [[b"%d-0" % number, [b"data", data]] for number, data in enumerate(payloads, 1)]]]


def claimed(*payloads: bytes, verdict: bytes = b"claimed") -> Any:
    """Return the reply of a claim that was granted until second 9 of 1970."""
    found = [[b"%d-0" % number, 1, data] for number, data in enumerate(payloads, 1)]
    return [verdict, 9000, *found]
