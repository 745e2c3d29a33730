"""What an operation may ask of Redis, and nothing about how it is sent.

An operation is a generator: it yields one of these requests, receives the reply and returns its result. The drivers
`sync.py` and `aio.py` run the same generators, so every behaviour is written once (the split psycopg makes between
`generators.py` and `waiting.py`, and h11 between protocol and IO). This module and the operations do no IO.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from rmq_core.lua import Script

Encodable: TypeAlias = bytes | str | int


class Call(NamedTuple):
    """Run a script. With `slot`, the driver adds the call slot that makes a resend harmless (KEYS[1], ARGV[1..2])."""

    script: Script
    keys: tuple[bytes, ...]
    args: tuple[Encodable, ...] = ()
    slot: bool = True
    confirm: tuple[Encodable, ...] | None = None
    """A command such as WAIT, sent in the same write; the reply becomes `(reply, its reply)`."""


class Chain(NamedTuple):
    """Calls sent in one write; each refuses to run unless the one before it ran. Gets the list of replies."""

    calls: tuple[Call, ...]


class Batch(NamedTuple):
    """Independent calls sent in one write. Gets the list of replies."""

    calls: tuple[Call, ...]


class Command(NamedTuple):
    """A plain, idempotent command."""

    args: tuple[Encodable, ...]


class Wait(NamedTuple):
    """Block on a wake list for at most `block_ms`, then run the call: both go out in one write."""

    wake: bytes
    block_ms: int
    call: Call


class Sleep(NamedTuple):
    """Do nothing for some seconds."""

    seconds: float


Want: TypeAlias = Call | Chain | Batch | Command | Wait | Sleep
R = TypeVar("R")
Exchange: TypeAlias = Generator[Want, Any, R]
