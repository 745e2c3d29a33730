"""Stores settings with a queue, and shows them: `queue.admin.configure` and `queue.admin.settings`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rmq_core.errors import ConfigurationError, ScriptFailed, WrongKeyType
from rmq_core.exchange import Command, Exchange, Pipeline, text_of
from rmq_core.exchange.scripts import script
from rmq_core.kernel.base import Method
from rmq_core.kernel.registry import ready
from rmq_core.kernel.settings import storable
from rmq_core.observe.fact import Act, Observer
from rmq_core.policy import as_text, moment, of_text, shown
from rmq_core.reports import Client, Differing, QueueSettings


def configure(
    engine: Any, /, settings: Iterable[str] = (), *, reset: str | Iterable[str] = (), **named: Any
) -> Exchange[QueueSettings]:
    """Store settings with the queue, which all clients follow within two seconds, and return what `settings` returns.

    named: settings by the names of the config, `max_deliveries=5`; None where the config has it, as for no limit.
    settings: the same as texts, `["max_deliveries=5", "overflow=block 5", "journal=7d"]`. reset: names, in a list or
    separated by commas, of settings that are no longer to be stored, so that each program's own config decides again.
    Raises ConfigurationError, which names the setting, for a wrong one, QueueFull when the server has no memory for it,
    WrongKeyType when the key holds something else.
    """
    wanted = {**dict(map(_parsed, settings)), **named}
    removed = [each.strip() for each in reset.split(",") if each.strip()] if isinstance(reset, str) else list(reset)
    _check_names(engine, {*wanted, *removed})
    changes = {name: as_text(of_text(value)) for name, value in wanted.items()}
    yield from ready(engine, engine.discipline)
    while True:
        before = yield Command(engine.look)
        before = before.encode() if isinstance(before, str) else before or b""
        stored = _object(before)
        after = {name: value for name, value in {**stored, **changes}.items() if name not in removed}
        _check(engine, after)
        changed = {name for name in {*stored, *after} if stored.get(name, ...) != after.get(name, ...)}
        if not changed:
            yield from engine.change(stored, after)  # again, for one that was interrupted between its steps
            return (yield from settings_of(engine))
        if (yield from apply(engine, before, after)):
            break
    values = {name: of_text(value) for name, value in after.items()}
    told = ", ".join(shown(name, values[name]) if name in after else f"{name} reset" for name in sorted(changed))
    if isinstance(engine, Observer):
        engine.state(Act.CONFIGURE, reason=told)
    return (yield from settings_of(engine))


def apply(engine: Any, before: bytes, after: dict[str, Any]) -> Exchange[bool]:
    """Store changed settings. Return False if others were stored in the meantime: nothing was changed then.

    A setting whose change needs a step of its own on the server takes that step here.
    """
    yield from engine.change(_object(before), after)
    text = json.dumps(after, sort_keys=True, separators=(",", ":")) if after else ""
    reply = yield script("kernel/configure", engine.keys, before=before, after=text)
    if reply not in {b"stored", b"changed"}:
        raise ScriptFailed(f"configure got {reply.decode()!r}")
    return bool(reply == b"stored")


def settings_of(engine: Any) -> Exchange[QueueSettings]:
    """Return the settings in force, those stored with the queue, and the programs whose configs differ.

    Raises WrongKeyType when the key of the settings holds something else.
    """
    replies = yield Pipeline((Command(engine.look), Command(("ZREVRANGE", engine.keys.differing, 0, -1, "WITHSCORES"))))
    for each in replies:
        if isinstance(each, Exception):
            raise each
    reply, found = replies
    stored = _object(reply or b"")
    engine.take(reply)
    return QueueSettings(
        {name: getattr(engine.config, name) for name in storable(engine.config)},
        {name: of_text(value) for name, value in stored.items()},
        tuple(_differing(*pair) for pair in _scored(found)),
    )


def clients(engine: Any) -> Exchange[list[Client]]:
    """Return the programs that consumed from the queue or published to it within the last day, 1,000 at most.

    Consumers come first, and of each role the latest. A program records itself with its first call and then about once
    a minute, along with a call that it makes anyway. One that waits for messages or extends its leases makes calls, and
    thus is there if its record is less than two minutes old. A publisher with nothing to publish makes none; its record
    has the time of its last one. Missing are RedisMessageQueue, programs of earlier versions, and those whose user may
    not write the key.
    """
    found: dict[tuple[str, str, str], Client] = {}
    for member, at_ms in _scored((yield Command(("ZREVRANGE", engine.keys.clients, 0, -1, "WITHSCORES")))):
        role, host, pid, version, settings, name, *_ = [*text_of(member).split("\t"), *[""] * 6]
        if pid.isdecimal():
            client = Client(role, host, int(pid), version, settings, moment(at_ms), name)
            found.setdefault((role, host, pid), client)
    return sorted(found.values(), key=lambda client: client.role)


def _scored(reply: Any) -> list[tuple[Any, Any]]:
    """Return pairs of a member and its score, as clients of RESP 2 and of RESP 3 return them."""
    if not reply or isinstance(reply[0], list | tuple):
        return [(member, at) for member, at in reply]
    return list(zip(reply[::2], reply[1::2], strict=True))


def _differing(member: bytes | str, at_ms: float) -> Differing:
    text = member if isinstance(member, str) else member.decode(errors="replace")
    program, _, own = text.partition("\t")
    return Differing(program, own, moment(at_ms))


def _parsed(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"settings: write name=value, as max_deliveries=5, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _object(stored: bytes | str) -> dict[str, Any]:
    try:
        found = json.loads(stored or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise WrongKeyType("the key of the queue's settings holds no JSON object: delete it")
    return found


def _check_names(engine: Any, names: Iterable[str]) -> None:
    known = storable(engine.own)
    if unknown := sorted(set(names) - known.keys()):
        mine = [each for each in unknown if hasattr(engine.own, each)]
        why = f"{', '.join(mine)} is each program's own" if mine else f"there is no {', '.join(unknown)}"
        raise ConfigurationError(f"{why}; settings that can be stored are {', '.join(known)}")


def _check(engine: Any, after: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if the settings cannot be in force together, for programs that pass none."""
    known = storable(engine.own)
    replace(type(engine.own)(), **{name: of_text(value) for name, value in after.items() if name in known})


class Configured:
    """The part of a queue whose settings can be stored with it."""

    configure = Method(configure)
    settings = Method(settings_of)
    clients = Method(clients)
