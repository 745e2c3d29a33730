"""Calls of scripts: their parameters by name, their call slots, and the stored format that they check.

A call slot is a Redis key and a sequence number. A script that changes something stores its reply there with the call's
number; a resend returns that reply, and an older number is refused. So a resent call takes effect once. A client owns
one slot for each call in flight.

A queue without the key `<prefix>format` is stored in format 1. A change of the format renames the main keys of the
queue, leaves strings in their places, and writes `<prefix>format`. So the scripts of a client that expects another
format fail with WRONGTYPE before they write. The check costs nothing: a client reads `<prefix>format` only after such
an error, and sends the call again if it knows the format. docs/reference/stored-format.md describes the formats.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from rmq_core.envelope.codec import nonce, process
from rmq_core.errors import ConfigurationError, FormatMismatch, RedisMessageQueueError, WrongKeyType
from rmq_core.exchange import Call, Command, Exchange, Wait, text_of
from rmq_core.exchange.loading import Parameter, Script, load


def script(name: str, keys: Laid | None = None, settings: Any = None, /, **given: Any) -> Call:
    """Return a call of a script. Parameters are passed by the names that the script's header declares.

    A parameter that is not passed is read from `keys`: from the attribute with its name, or from a key that is passed
    (see `Keys.derived`). Other arguments are read from the fields of `settings`, a NamedTuple. Optional parameters may
    be omitted from the end. A list parameter takes any sequence.
    Raises TypeError for a missing or unknown parameter and names it.
    """
    layout = "" if keys is None else keys.layout
    arrange = _ARRANGED.get((layout, name, *given))
    if arrange is None:
        arrange = _ARRANGED[layout, name, *given] = _arrange(load(name, layout), keys, settings, given)
    return arrange(keys, settings, given)


_Arrange: TypeAlias = Callable[[object, object, Mapping[str, Any]], Call]
_ARRANGED: dict[tuple[str, ...], _Arrange] = {}


def _arrange(found: Script, keys: Laid | None, settings: Any, given: Mapping[str, Any]) -> _Arrange:
    """Build the function that puts the parameters in order, for all calls that pass the same names."""
    keys_of, args_of = found.own
    if unknown := given.keys() - {parameter.name for parameter in (*keys_of, *args_of)}:
        message = f"{found.name} has no parameter {', '.join(sorted(unknown))}"
        raise TypeError(message)
    names = [parameter.name for parameter in (*keys_of, *args_of)]
    known = {} if settings is None else {name: f"settings.{name}" for name in settings._fields}
    known |= {name: f"keys.{name}" for name in names if isinstance(getattr(keys, name, None), bytes)}
    for name, (method, sources) in () if keys is None else keys.derived.items():
        if passed := [source for source in sources if source in given]:
            known[name] = f"keys.{method}(given[{passed[0]!r}])"
    ordered = [
        "".join(f"{value}, " for value in _expressions(found, some, given, known)) for some in (keys_of, args_of)
    ]
    # Generated as source code, as namedtuple does, for speed: it runs at every call.
    code = f"lambda keys, settings, given: Call(script, ({ordered[0]}), ({ordered[1]}), None, None, keys)"
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


class Laid:
    """The keys of a queue, and the layout that its client knows of; see `loading`.

    in_force: the settings, for arguments that a script has in another layout only.
    layouts: those that the queue may have. derived: keys of a script that follow from another one: by name, the method,
    and the names of that other one, best first.
    """

    layout: str = ""
    in_force: Any = None
    layouts: ClassVar[tuple[str, ...]] = ("",)
    derived: ClassVar[Mapping[str, tuple[str, Sequence[str]]]] = {}

    def lay_out(self, layout: str) -> None:
        """Use another layout from now on."""
        self.layout = layout


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


FORMATS = {1: "", 2: "grouped", 3: "sharded"}
"""The formats that this version reads and writes, and the layout of each."""


def format_key(prefix: bytes) -> bytes:
    """Return the key that holds `<format> <first version of RMQ that understands it>`, for the prefix of a queue."""
    return prefix + b"format"


RESENDS = 20
"""How often in a row a request that got WRONGTYPE is sent again. A change from one policy of groups to another leads
through a queue without groups, so the layout may be the old one again when a client reads which one it is."""


def laid_out(want: Any) -> Exchange[Any]:
    """Return the request that got WRONGTYPE as the queue's present layout needs it; None if it has no other form."""
    call = want.call if isinstance(want, Wait) else want
    if not isinstance(call, Call) or call.of is None or call.appended:
        return None
    try:
        layout = FORMATS.get((yield from _format(call.of.prefix))[0])
    except RedisMessageQueueError:
        return None
    if layout is None or layout not in call.of.layouts:
        return None
    call.of.lay_out(layout)
    changed = again(call)
    return want._replace(call=changed) if isinstance(want, Wait) else changed


def again(call: Call) -> Call:
    """Return the same call for the layout that is known now."""
    own = load(call.script.name).own
    known = {parameter.name for parameter in (*own.keys, *own.args)}
    fixed = type(call.of).__annotations__  # where such a key is may depend on the layout
    given = {
        name: getattr(call.of, name) if name in fixed else value for name, value in call.given.items() if name in known
    }
    return script(call.script.name, call.of, call.of.in_force, **given)._replace(then=call.then)


def answered(call: Call) -> Exchange[Any]:
    """Return the reply to a call. It is for `together`, in whose writes a driver cannot repeat single calls."""
    for _ in range(RESENDS):
        try:
            return (yield call)
        except WrongKeyType:
            changed = yield from laid_out(call)
            if changed is None:
                raise
            call = changed
    return (yield call)


def explained(prefix: bytes, error: WrongKeyType, layouts: Sequence[str]) -> Exchange[RedisMessageQueueError]:
    """Return FormatMismatch if the queue is stored in a format that has none of these layouts, else `error`."""
    try:
        kept, needs = yield from _format(prefix)
    except RedisMessageQueueError:
        return error
    if FORMATS.get(kept) in layouts:
        return error
    if kept in FORMATS:
        known = ConfigurationError(
            f"the queue is stored in format {kept}, which this class cannot use: use LeasedQueue"
        )
        known.__cause__ = error
        return known
    mismatch = FormatMismatch(kept, max(each for each, layout in FORMATS.items() if layout in layouts), needs)
    mismatch.__cause__ = error
    return mismatch


def _format(prefix: bytes) -> Exchange[tuple[int, str]]:
    """Return the format of a queue, and the version that it needs."""
    stored = yield Command(("GET", format_key(prefix)))
    kept, _, needs = text_of(stored or "").partition(" ")
    return (int(kept) if kept.isdecimal() else 1), needs
