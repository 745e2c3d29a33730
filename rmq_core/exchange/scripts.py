"""Calls of scripts: their parameters by name, their call slots, and the stored format that they check.

A call slot is a Redis key and a sequence number. A script that changes something stores its reply there with the call's
number; a resend returns that reply, and an older number is refused. So a resent call takes effect once. A client owns
one slot for each call in flight.

A queue without the key `<prefix>format` is stored in format 1. A migration to a later format renames the main keys of
the queue, leaves strings in their places, and writes `<prefix>format`. So the scripts of an older client fail with
WRONGTYPE before they write. The check costs nothing: a client reads `<prefix>format` only after such an error.
docs/reference/stored-format.md describes format 1.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from rmq_core.envelope.codec import nonce, process
from rmq_core.errors import FormatMismatch, RedisMessageQueueError, WrongKeyType
from rmq_core.exchange import Call, Command, Exchange, text_of
from rmq_core.exchange.loading import Parameter, Script, load


def script(name: str, keys: object = None, settings: Any = None, /, **given: Any) -> Call:
    """Return a call of a script. Parameters are passed by the names that the script's header declares.

    A key that is not passed is read from the attribute of `keys` with the same name, an argument from the field of
    `settings`, a NamedTuple. Optional parameters may be omitted from the end. A list parameter takes any sequence.
    Raises TypeError for a missing or unknown parameter and names it.
    """
    arrange = _ARRANGED.get((name, *given))
    if arrange is None:
        arrange = _ARRANGED[name, *given] = _arrange(load(name), keys, settings, given)
    return arrange(keys, settings, given)


_Arrange: TypeAlias = Callable[[object, object, Mapping[str, Any]], Call]
_ARRANGED: dict[tuple[str, ...], _Arrange] = {}


def _arrange(found: Script, keys: object, settings: Any, given: Mapping[str, Any]) -> _Arrange:
    """Build the function that puts the parameters in order, for all calls that pass the same names."""
    keys_of, args_of = found.own
    if unknown := given.keys() - {parameter.name for parameter in (*keys_of, *args_of)}:
        message = f"{found.name} has no parameter {', '.join(sorted(unknown))}"
        raise TypeError(message)
    attributes = {parameter.name for parameter in keys_of if isinstance(getattr(keys, parameter.name, None), bytes)}
    named = {name: f"keys.{name}" for name in attributes}
    from_settings = {} if settings is None else {name: f"settings.{name}" for name in settings._fields}
    ordered = [
        "".join(f"{value}, " for value in _expressions(found, some, given, known))
        for some, known in ((keys_of, named), (args_of, from_settings))
    ]
    # Generated as source code, as namedtuple does, for speed: it runs at every call.
    code = f"lambda keys, settings, given: Call(script, ({ordered[0]}), ({ordered[1]}))"
    arranged: _Arrange = eval(code, {"Call": Call, "script": found})  # noqa: S307  only names from our own headers
    return arranged


def _expressions(
    found: Script, parameters: Iterable[Parameter], given: Mapping[str, Any], known: Mapping[str, str]
) -> Iterable[str]:
    left_out = ""
    for parameter in parameters:
        name = parameter.name
        if name in given and left_out:
            message = f"{found.name}: {name!r} is passed, so {left_out!r} must be passed too"
            raise TypeError(message)
        if name in given:
            yield f"{'*' if parameter.is_list else ''}given[{name!r}]"
        elif parameter.is_optional:
            left_out = name
        elif name in known:
            yield known[name]
        else:
            message = f"{found.name} needs {name!r}"
            raise TypeError(message)


class Slot:
    """One key, and the number of the last call made through it."""

    __slots__ = ("key", "seq")

    def __init__(self, key: bytes) -> None:
        self.key, self.seq = key, 0


class Slots:
    """The slots of one client for one queue. A forked child starts with new ones."""

    def __init__(self, prefix: bytes, retry_budget_s: float) -> None:
        self.ttl_ms = max(60_000, int(retry_budget_s * 2000))
        self._prefix = prefix
        self._own = _Own()

    def take(self) -> Slot:
        """Take a free slot; increment its number."""
        own = self._own
        if own.pid != process.id:
            own = self._own = _Own()
        try:
            slot = own.free.pop()
        except IndexError:
            slot = Slot(b"%bslot:%b/%d" % (self._prefix, own.client, next(own.numbers)))
        slot.seq += 1
        return slot

    def give(self, slot: Slot) -> None:
        """Release a slot. A late copy of its last call is refused once a newer number is used."""
        own = self._own
        if own.pid == process.id:
            own.free.append(slot)


class _Own:
    """Per-process state, replaced atomically: several threads of a forked child may replace it at once."""

    __slots__ = ("client", "free", "numbers", "pid")

    def __init__(self) -> None:
        self.pid = process.id
        self.client = nonce().encode()
        self.free: deque[Slot] = deque()
        self.numbers = itertools.count()  # atomic `next`: threads must never get the same number


FORMAT = 1
"""The format that this version reads and writes."""


def format_key(prefix: bytes) -> bytes:
    """Return the key that holds `<format> <first version of RMQ that understands it>`, for the prefix of a queue."""
    return prefix + b"format"


def explained(prefix: bytes, error: WrongKeyType) -> Exchange[RedisMessageQueueError]:
    """Return FormatMismatch if the queue is stored in another format, else `error`."""
    try:
        stored = yield Command(("GET", format_key(prefix)))
    except RedisMessageQueueError:
        return error
    kept, _, needs = text_of(stored or "").partition(" ")
    if not kept.isdecimal() or int(kept) == FORMAT:
        return error
    mismatch = FormatMismatch(int(kept), FORMAT, needs)
    mismatch.__cause__ = error
    return mismatch
