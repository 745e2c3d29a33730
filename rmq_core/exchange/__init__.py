"""The requests that operations yield and drivers send to Redis.

An operation is a generator: it yields one of these requests, receives the reply and returns its result. The drivers
`sync.py` and `aio.py` run the same generators, so sync and async share one implementation (sans-IO, as in h11 and
psycopg's `generators.py`). This module and the operations do no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from rmq_core.errors import ScriptFailed
from rmq_core.exchange.loading import Parameter, Script

Encodable: TypeAlias = bytes | str | int


class Packed:
    r"""Many arguments of a command as they are sent: `$<length>\r\n<argument>\r\n` for each."""

    __slots__ = ("count", "data")

    def __init__(self, count: int, data: bytes | memoryview) -> None:
        self.count, self.data = count, data

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        """Return the arguments one by one."""
        at, data = 0, bytes(self.data)
        for _ in range(self.count):
            stop = data.index(b"\r\n", at)
            at, size = stop + 2, int(data[at + 1 : stop])
            yield data[at : at + size]
            at += size + 2


class Appended(NamedTuple):
    """Messages that RPUSH appends to a list, in one transaction with the script that accepts them or takes them back.

    So they do not pass through Lua, which costs more than storing them. Without messages, the script runs alone, which
    fails if the user may use no transactions.
    """

    list: bytes
    messages: Sequence[bytes] | Packed = ()


class Call(NamedTuple):
    """A call of a script; `scripts.script` builds it.

    With `slot`, the driver prepends an idempotency key and two arguments, so a resend has no second effect.
    """

    script: Script
    keys: tuple[bytes, ...]
    args: tuple[Encodable, ...] = ()
    then: tuple[Encodable, ...] | None = None
    """A plain command behind the script, in the same write, such as WAIT; the result is `(reply, reply to it)`."""
    appended: Appended | None = None
    of: Any = None
    """The keys of the queue, for a call that may be sent again in another layout of it."""

    @property
    def slot(self) -> bool:
        """Whether the script has a call slot."""
        return self.script.has_slot

    @property
    def given(self) -> dict[str, Any]:
        """Keys and arguments by parameter name; a list parameter maps to a tuple."""
        own = self.script.own
        return {**_named(own.keys, self.keys), **_named(own.args, self.args)}


class Chain(NamedTuple):
    """Calls sent in one write; each runs only if the previous one did. Returns a list of replies."""

    calls: tuple[Call, ...]


class Command(NamedTuple):
    """A plain, idempotent command.

    aside: the operation does not depend on it, and its key is not one of the queue's. On a cluster another node may
    serve that key; while that node does not answer, the reply is None, and the operation goes on.
    """

    args: tuple[Encodable, ...]
    aside: bool = False

    @property
    def key(self) -> Any:
        """The key of a command that has one."""
        return self.args[1]


class Pipeline(NamedTuple):
    """Calls and plain commands sent in one write, and executed in this order. Returns a list of replies.

    None depends on another one; commands of other clients may be executed in between.
    """

    calls: tuple[Call | Command, ...]


class Wait(NamedTuple):
    """Block on list `wake` for up to `block_ms`, then run `call`; both are sent in one write.

    into: destination list; the element is moved (BLMOVE RIGHT LEFT) instead of popped, and the operation gets `(moved,
    reply)`. moved: the element, None on timeout, or the server's error (BLMOVE fails at maxmemory). by: a blocking
    command to use instead; its reply is dropped, since `call` reads the result.
    """

    wake: bytes
    block_ms: int
    call: Call
    into: bytes | None = None
    by: tuple[Encodable, ...] | None = None


class Listen(NamedTuple):
    """An idempotent command that blocks in Redis; `block_ms` repeats the timeout that its arguments set."""

    args: tuple[Encodable, ...]
    block_ms: int


class At(NamedTuple):
    """A request to another shard of the queue: to the node that has the keys with this prefix."""

    prefix: bytes
    want: Any


class Across(NamedTuple):
    """Requests to several shards, sent at the same time, one write a node. Returns a list of replies.

    An error takes the place of a reply, so that one shard that is away keeps no other from its own. hurry: wait for a
    node that does not answer for half a second only, however long the driver would.
    """

    parts: tuple[At, ...]
    hurry: bool = False


class Sleep(NamedTuple):
    """Do nothing for some seconds."""

    seconds: float


class Beside(Protocol):
    """What a driver reads now and then beside its requests, with a plain command that it appends to their writes.

    look_at: the time of the monotonic clock from which on it is to be sent again. unrecorded: the names of scripts and
    commands that it goes along with before that, too. So does it with a request that blocks: what was read before may
    be old when the wait ends.
    """

    look_at: float
    unrecorded: frozenset[str]

    def along(self, name: str) -> tuple[Any, ...]:
        """Return the command to append to the write of a script, or of a command, with this name."""

    def take(self, reply: Any) -> None:
        """Get the reply, which may be an error; raise nothing."""


class Interrupted(Exception):
    """The caller gave up waiting; the request may still have taken effect."""


class Patience(NamedTuple):
    """Retry policy of a request: total budget and back-off.

    budget_s: None leaves resending to the client's own retry policy. given_up: polled while waiting and between
    attempts; True ends both. hurried: also poll `given_up` while a non-blocking call's reply is late. noticed: called
    with each error that will be retried. once: make a single attempt.
    """

    budget_s: float | None
    first_s: float = 0.02
    longest_s: float = 1.0
    given_up: Callable[[], bool] | None = None
    noticed: Callable[[Exception], object] | None = None
    hurried: bool = False
    once: bool = False

    @property
    def over(self) -> bool:
        return self.given_up is not None and self.given_up()


Want: TypeAlias = Call | Chain | Pipeline | Command | Wait | Listen | Sleep | At | Across
R = TypeVar("R")
K = TypeVar("K")
Exchange: TypeAlias = Generator[Want, Any, R]


def together(exchanges: Sequence[Exchange[R]]) -> Exchange[list[R]]:
    """Run exchanges concurrently; each may yield only `Call`s and `Command`s. Those of a round share one write."""
    results: dict[int, R] = {}
    wants: dict[int, Any] = {}
    for at, exchange in enumerate(exchanges):
        _step(at, partial(next, exchange), wants, results)
    while wants:
        asked = sorted(wants)
        replies = yield Pipeline(tuple(wants.pop(at) for at in asked))
        for at, reply in zip(asked, replies, strict=True):
            answer = exchanges[at].throw if isinstance(reply, Exception) else exchanges[at].send
            _step(at, partial(answer, reply), wants, results)
    return [results[at] for at in range(len(exchanges))]


def at(prefix: bytes, exchange: Exchange[R]) -> Exchange[R]:
    """Run an exchange at the shard whose keys have this prefix; what it asks of other shards goes there."""
    try:
        want = next(exchange)
        while True:
            try:
                reply = yield want if isinstance(want, At | Across | Sleep) else At(prefix, want)
            except BaseException as error:
                want = exchange.throw(error)
            else:
                want = exchange.send(reply)
    except StopIteration as stop:
        result: R = stop.value
        return result


def across(
    exchanges: Mapping[K, tuple[bytes, Exchange[R]]], *, hurry: bool = False
) -> Exchange[dict[K, R | Exception]]:
    """Run exchanges at several shards side by side: each round is one write a node. Returns the results by key.

    exchanges: by any key, the prefix of the shard and the exchange, which may neither block nor sleep. The result of
    one that fails is its error. hurry: see `Across`.
    """
    results: dict[K, R | Exception] = {}
    wants: dict[K, At] = {}

    def step(key: K, move: Callable[[], Any]) -> None:
        try:
            want = move()
            wants[key] = want if isinstance(want, At) else At(exchanges[key][0], want)
        except StopIteration as stop:
            results[key] = stop.value
        except Exception as error:  # it is the result
            results[key] = error

    for key, (_, exchange) in exchanges.items():
        step(key, partial(next, exchange))
    while wants:
        asked, parts = list(wants), tuple(wants.values())
        wants.clear()
        for key, reply in zip(asked, (yield Across(parts, hurry)), strict=True):
            answer = exchanges[key][1].throw if isinstance(reply, Exception) else exchanges[key][1].send
            step(key, partial(answer, reply))
    return results


def _step(place: int, step: Callable[[], Any], wants: dict[int, Any], results: dict[int, Any]) -> None:
    try:
        wants[place] = step()
    except StopIteration as stop:
        results[place] = stop.value


def blocks_for(block_ms: int) -> str:
    """A blocking command's timeout in seconds, at least 2 ms: Redis 6.2 truncates 0.001 to 0 (forever)."""
    return f"{max(2, block_ms) / 1000:.3f}"


def text_of(reply: bytes | str) -> str:
    """Return the reply to a plain command as text, which some clients make of it themselves."""
    return reply if isinstance(reply, str) else bytes(reply).decode(errors="replace")


def entries_of(reply: Any) -> list[Any]:
    """Return the entries in a reply to a read of one stream, whatever shape the protocol gives the reply."""
    if not reply:
        return []
    if isinstance(reply, dict):
        reply = list(reply.items())
    if not isinstance(reply[0], list | tuple):
        return list(reply[1])
    entries: list[Any] = reply[0][1]
    return entries


def number_after(word: bytes, reply: bytes) -> int:
    """Return the number after this word in a reply. Raises ScriptFailed for any other reply."""
    if not reply.startswith(word):
        raise ScriptFailed(f"the server answered {reply.decode(errors='replace')!r}")
    return int(reply[len(word) :])


def _named(parameters: Sequence[Parameter], values: Sequence[Any]) -> dict[str, Any]:
    named = {parameter.name: value for parameter, value in zip(parameters, values, strict=False)}
    if parameters and parameters[-1].is_list:
        named[parameters[-1].name] = tuple(values[len(parameters) - 1 :])
    return named
