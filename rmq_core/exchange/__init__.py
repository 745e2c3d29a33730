"""What an operation may ask of Redis, and nothing about how it is sent.

An operation is a generator: it yields one of these requests, receives the reply and returns its result. The drivers
`sync.py` and `aio.py` run the same generators, so every behaviour is written once (the split psycopg makes between
`generators.py` and `waiting.py`, and h11 between protocol and IO). This module and the operations do no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from rmq_core.lua import Parameter, Script

Encodable: TypeAlias = bytes | str | int


class Call(NamedTuple):
    """Run a script; `scripts.script` makes one.

    With a `slot`, the driver adds the call slot that makes a resend harmless: a key and two arguments in front.
    """

    script: Script
    keys: tuple[bytes, ...]
    args: tuple[Encodable, ...] = ()
    confirm: tuple[Encodable, ...] | None = None
    """A command such as WAIT, sent in the same write; the reply becomes `(reply, its reply)`."""

    @property
    def slot(self) -> bool:
        """Whether the script has a call slot."""
        return self.script.has_slot

    @property
    def given(self) -> dict[str, Any]:
        """The values of keys and arguments by their names, those of a list as a tuple."""
        own = self.script.own
        return {**_named(own.keys, self.keys), **_named(own.args, self.args)}


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
    """Block on a wake list for at most `block_ms`, then run the call: both go out in one write.

    into: the list to which what comes is moved (BLMOVE, from the right end to the left) instead of being taken out; the
    operation then gets `(moved, reply)`. moved: what came, None for nothing, or the error when the server refused to
    block, as a full one refuses BLMOVE. by: the command that blocks in place of these; its reply is dropped, for the
    call finds out what came.
    """

    wake: bytes
    block_ms: int
    call: Call
    into: bytes | None = None
    by: tuple[Encodable, ...] | None = None


class Listen(NamedTuple):
    """Send a command that blocks in Redis, for `block_ms` as its arguments say, and that may be sent again."""

    args: tuple[Encodable, ...]
    block_ms: int


class Sleep(NamedTuple):
    """Do nothing for some seconds."""

    seconds: float


class Interrupted(Exception):
    """Whoever waited has given up; the request may have had its effect all the same."""


class Patience(NamedTuple):
    """How long and how densely a request is sent again while Redis does not answer.

    budget_s: None leaves resending to the client's own retry policy. given_up: looked at while waiting and between two
    attempts; true ends both. hurried: looked at also while a reply that should come at once does not.
    noticed: told of each failure that is followed by another attempt.
    """

    budget_s: float | None
    first_s: float = 0.02
    longest_s: float = 1.0
    given_up: Callable[[], bool] | None = None
    noticed: Callable[[Exception], object] | None = None
    hurried: bool = False

    @property
    def over(self) -> bool:
        return self.given_up is not None and self.given_up()


Want: TypeAlias = Call | Chain | Batch | Command | Wait | Listen | Sleep
R = TypeVar("R")
Exchange: TypeAlias = Generator[Want, Any, R]


def together(exchanges: Sequence[Exchange[R]]) -> Exchange[list[R]]:
    """Run exchanges that only make calls side by side: what they want next goes out in one write, in their order."""
    results: dict[int, R] = {}
    wants: dict[int, Any] = {}
    for at, exchange in enumerate(exchanges):
        _step(at, partial(next, exchange), wants, results)
    while wants:
        asked = sorted(wants)
        replies = yield Batch(tuple(wants.pop(at) for at in asked))
        for at, reply in zip(asked, replies, strict=True):
            answer = exchanges[at].throw if isinstance(reply, Exception) else exchanges[at].send
            _step(at, partial(answer, reply), wants, results)
    return [results[at] for at in range(len(exchanges))]


def _step(at: int, step: Callable[[], Any], wants: dict[int, Any], results: dict[int, Any]) -> None:
    try:
        wants[at] = step()
    except StopIteration as stop:
        results[at] = stop.value


def blocks_for(block_ms: int) -> str:
    """The timeout of a blocking command, in seconds. Redis 6.2 cuts 0.001 down to 0, for ever: so 2 ms at least."""
    return f"{max(2, block_ms) / 1000:.3f}"


def _named(parameters: Sequence[Parameter], values: Sequence[Any]) -> dict[str, Any]:
    named = {parameter.name: value for parameter, value in zip(parameters, values, strict=False)}
    if parameters and parameters[-1].is_list:
        named[parameters[-1].name] = tuple(values[len(parameters) - 1 :])
    return named
