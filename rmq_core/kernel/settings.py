"""Settings that are stored with a queue: every client follows them, whatever its own config says.

A queue object reads them before its first operation, and then about once a second: a driver appends the GET to a write
that it sends anyway. So a queue without stored settings costs no script and no round trip more.

With the first write that publishes, and the first that consumes, and then once a minute, a small script replaces the
GET. It also records in `clients` that this program publishes or consumes, as the name of the script in the same write
tells. A waiting claim sends it too, so idle consumers are listed. A publisher that sends nothing is listed with the
time of its last publish, for a day.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from dataclasses import MISSING, Field, fields, replace
from functools import cache
from math import inf
from time import monotonic
from typing import Any, TypeVar

from rmq_core._version import __version__
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import ConfigurationError, RedisMessageQueueError, ScriptFailed, WrongKeyType, translate
from rmq_core.exchange import Command, Exchange, Pipeline
from rmq_core.exchange.loading import load
from rmq_core.exchange.scripts import script
from rmq_core.observe.history import actor
from rmq_core.policy import of_text, shown

R = TypeVar("R")
_log = logging.getLogger("rmq")
INTERVAL_S = 1.0
_SAY_AGAIN_S = 3600.0
_DAY_MS = 86_400_000
_MOST_TOLD = 10_000
_told: set[tuple[bytes, str]] = set()
PRESENT_S = 60.0
"""How often a program records that it uses a queue."""
ROLES = {
    name: role
    for role, names in (
        ("publisher", "accept accept_staged add add_native publish publish_many publish_staged stage"),
        ("consumer", "ack claim claim_next extend fail heartbeat turn BLMOVE XREADGROUP"),
    )
    for name in names.split()
}
"""What a program is that calls an operation or a script of that name, or sends that command.

Scripts that both consumers and operators call, as to release a lease, are left out.
"""


@cache
def _names(discipline: str, roles: frozenset[str]) -> frozenset[str]:
    """Return the operations, commands and scripts of a discipline that only a program with one of these roles calls."""
    names = [name for name, role in ROLES.items() if role in roles]
    return frozenset([*names, *(f"{discipline}/{name}" for name in names)])


class Following:
    """The part of an engine that follows the settings stored with its queue. No IO.

    own: the program's config. config: the one in force. stored: the text that was read last, None for none. known:
    whether it was read. look_at: when to read it again. simple: whether operations need nothing done around them.
    differs: in what the program's config differs; say_at: when to record that. present_at: by role, when to record
    that the program uses the queue, empty once the server has refused it; unrecorded: the names whose role has to
    be recorded now; recording: whether that goes along with the read under way. client_name: of the program's
    connection, empty without one.
    """

    keys: Any
    config: Any
    own: Any
    discipline: str
    stored: bytes | None
    known: bool
    look_at: float
    simple: bool
    differs: str
    say_at: float
    present_at: dict[str, float]
    unrecorded: frozenset[str]
    recording: bool
    client_name: str = ""

    def follow(self, config: Any, discipline: str) -> None:
        """Begin with a program's own config."""
        self.own, self.discipline = config, discipline
        self.stored, self.known, self.simple = None, False, False
        self.differs, self.look_at, self.say_at = "", -inf, inf
        self.present_at, self.recording = dict.fromkeys(ROLES.values(), -inf), False
        self.unrecorded = _names(discipline, frozenset(self.present_at))
        self.use(config)

    def change(self, before: dict[str, Any], after: dict[str, Any]) -> Exchange[None]:
        """Do what a change needs besides storing the settings; the discipline overrides this, and may set `after`."""
        del before, after
        yield from ()

    def use(self, config: Any) -> None:
        """Follow a config from now on; the discipline sets what it derives from it."""
        raise NotImplementedError

    @property
    def look(self) -> tuple[Any, ...]:
        """The command that reads the settings."""
        return "GET", self.keys.settings

    def along(self, name: str) -> tuple[Any, ...]:
        """Return the command that reads the settings; when it is time, one that also records this program."""
        role = ROLES.get(name.rpartition("/")[2], "")
        if monotonic() < self.present_at.get(role, inf):
            return self.look
        self.present_at[role], self.recording = monotonic() + PRESENT_S, True
        self.unrecorded -= _names(self.discipline, frozenset([role]))
        about = [role, os.uname().nodename, str(os.getpid()), __version__, one_line(passed(self.own))]
        client = "\t".join([*about, self.client_name] if self.client_name else about)
        source = load("kernel/present").source
        return "EVAL", source, 2, self.keys.settings, self.keys.clients, client, _DAY_MS

    def take(self, reply: Any) -> None:
        """Apply the reply to `look`. Settings that may not be read, or that are none, leave the config as it is."""
        now = monotonic()
        self.look_at = now + INTERVAL_S
        recording, self.recording = self.recording, False
        if refused := recording and isinstance(reply, Exception):
            self.present_at = {}  # a user that may not write the record may still read the settings, a second later
        self.unrecorded = _names(self.discipline, frozenset(role for role, at in self.present_at.items() if now >= at))
        if refused:
            return
        if isinstance(reply, Exception):
            error = reply if isinstance(reply, RedisMessageQueueError) else translate(reply)
            tell(self, f"the settings stored with it cannot be read: {error}")
        elif reply != self.stored:
            stored = reply.encode() if isinstance(reply, str) else reply
            config, problems = in_force(self.own, stored)
            self.use(config)
            self.stored = stored
            for problem in problems:
                tell(self, f"a stored setting is ignored: {problem}")
            self.differs = differences(self.own, config)
            self.say_at = monotonic()
            if self.differs:
                tell(self, f"the settings stored with it are used instead of this program's {self.differs}")
        self.known = True
        self.simple = self.settled

    @property
    def settled(self) -> bool:
        """Whether the settings are known, and nothing is to be recorded about them."""
        return self.known and not (self.differs and monotonic() >= self.say_at)


def tell(engine: Any, text: str) -> None:
    """Warn once in this process."""
    if (known := (engine.keys.settings, text)) not in _told and len(_told) < _MOST_TOLD:
        _told.add(known)
        _log.warning("queue %r: %s", engine.keys.name, text)


def looked(engine: Any, verb: str = "") -> Exchange[None]:
    """Read the stored settings; record the program, if the verb is one that it has not recorded for a minute."""
    engine.look_at = monotonic() + INTERVAL_S  # so that the driver does not read them with the same write
    look = Command(engine.along(verb))
    (reply,) = yield Pipeline((look,))  # by a connection of the driver, not another of the client
    engine.take(reply)


def following(engine: Any, verb: str = "") -> Exchange[None]:
    """Read the stored settings before the first operation, and record in what the program's config differs."""
    if not engine.known:
        yield from looked(engine)
    if getattr(engine, "shards", None) and (monotonic() >= engine.look_at or verb in engine.unrecorded):
        yield from engine.shards.look(verb)
    if engine.differs and monotonic() >= engine.say_at:
        engine.say_at = monotonic() + _SAY_AGAIN_S
        with suppress(RedisMessageQueueError):  # the program's log says it too
            program = f"{actor()}\t{one_line(engine.differs)}"
            yield script("kernel/differing", engine.keys, program=program, keep_ms=_DAY_MS)
    engine.simple = engine.settled


def followed(engine: Any, exchange: Exchange[R]) -> Exchange[R]:
    """Run an exchange that is not a method of the queue, with the stored settings known."""
    yield from following(engine)
    return (yield from exchange)


def fresh(engine: Any) -> Exchange[None]:
    """Read the stored settings if they were not read within the last second.

    A reclaim does so itself: it may be one of many queues that share a driver, which reads none for them.
    """
    if monotonic() < engine.look_at:
        return
    try:
        engine.take((yield Command(engine.look)))
    except (ScriptFailed, WrongKeyType) as error:
        engine.take(error)


def storable(config: Any) -> dict[str, Field[Any]]:
    """Return the fields of a config, or of its class, that can be stored with a queue."""
    return {each.name: each for each in fields(config) if each.metadata.get("stored")}


def in_force(own: Any, stored: bytes | None) -> tuple[Any, list[str]]:
    """Return a program's config with the stored settings, and what is wrong with settings that are left out."""
    if stored is None:
        return own, []
    try:
        given = json.loads(stored)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return own, ["the key holds no JSON object"]
    known = {name: of_text(given[name]) for name in storable(own) if name in given}
    problems = [f"this version of RMQ knows no {name}" for name in sorted(given.keys() - known.keys())]
    try:
        return replace(own, **known), problems
    except ConfigurationError:  # with the program's other settings, or by a later version: use those that fit
        config, laid = own, {name: known[name] for name in known if storable(own)[name].metadata.get("lays_out")}
        if any(laid.values()):  # how the messages are stored is no program's choice
            config = type(own)(**{each.name: getattr(own, each.name) for each in fields(own) if not _is_stored(each)})
            config = replace(config, **laid)
        for name, value in known.items():
            try:
                config = replace(config, **{name: value})
            except ConfigurationError as error:
                problems.append(str(error))
        return config, problems


def _is_stored(each: Field[Any]) -> bool:
    return bool(each.metadata.get("stored"))


def differences(own: Any, config: Any) -> str:
    """Return the settings that a program passes and that are not in force: `max_deliveries=3, dedup=true`."""
    found = []
    for name, each in storable(own).items():
        passed = getattr(own, name)
        if passed != _default(each) and not _same(passed, getattr(config, name)):
            found.append(shown(name, passed))
    return ", ".join(found)


def passed(own: Any) -> str:
    """Return the settings that a program passes and that are not the defaults, without functions."""
    given = ((each, getattr(own, each.name)) for each in fields(own))
    return ", ".join(
        shown(each.name, value) for each, value in given if value != _default(each) and not callable(value)
    )


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or _in_seconds(one) == _in_seconds(other))


def _in_seconds(value: Any) -> Any:
    return value.total_seconds() if hasattr(value, "total_seconds") else value
