"""Reads the facts that `rmq doctor` checks; changes nothing. A fact that the user may not read is unknown."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rmq_core.cli.requirements import CHANNELS, Requirements, needed
from rmq_core.errors import RedisMessageQueueError
from rmq_core.exchange import Command, Exchange
from rmq_core.protocol import DEFAULT

_ASK = b"""
local answers = {}
for at, example in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(example, '[^ |]+') do words[#words + 1] = word == 'K' and KEYS[1] or word end
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  local why = known and '' or type(may) == 'table' and may.err or tostring(may)
  if known then answers[at] = may and 'yes' or 'no'
  else answers[at] = string.find(why, 'Invalid command', 1, true) and 'absent' or 'unsure' end
end
return answers
"""
"""Whether the user may run each command with a key that it may use. Scripts may ask this without a permission."""


class Allowed(NamedTuple):
    """What a user may do.

    scripts: why scripts cannot be run, None if they can. commands: what the server says about each command: `yes`,
    `no`, `absent` for a command that it does not have, or `unsure`; None if it says nothing. keys: the ACL rules for
    keys that the user lacks. channels: whether the user may use the queue's channels; None if unknown.
    """

    scripts: str | None = None
    commands: Mapping[str, str] | None = None
    keys: tuple[str, ...] = ()
    channels: bool | None = None


UNKNOWN, ANY = Allowed(), needed(DEFAULT, None)


@dataclass(frozen=True)
class Facts:
    """Facts about a server; an unknown fact is None."""

    info: Mapping[str, Any]
    save: str | None = None
    appendfsync: str | None = None
    skew_s: float | None = None
    user: str | None = None
    needs: Requirements = ANY
    allowed: Allowed = UNKNOWN
    clients: tuple[str, ...] | None = None
    """The library name of each connection."""


def gather(needs: Requirements) -> Exchange[Facts]:
    """Read all facts from the server."""
    info = yield from _or_none("INFO", "everything")
    return Facts(
        info=_one(info),
        save=(yield from _setting("save")),
        appendfsync=(yield from _setting("appendfsync")),
        skew_s=(yield from _skew()),
        user=_text((yield from _or_none("ACL", "WHOAMI"))),
        allowed=(yield from _allowed(needs)),
        needs=needs,
        clients=(yield from _clients()),
    )


def _or_none(*words: str | int) -> Exchange[Any]:
    try:
        return (yield Command(words))
    except RedisMessageQueueError:
        return None


def _clients() -> Exchange[tuple[str, ...] | None]:
    """Return the library name of each connection; None if the user may not read it, or before Redis 7.2."""
    reply = yield from _or_none("CLIENT", "LIST")
    names = re.findall(r" lib-name=(\S*)", _text(reply) or "") if isinstance(reply, bytes | str) else []
    return tuple(names) or None


def _setting(name: str) -> Exchange[str | None]:
    reply = yield from _or_none("CONFIG", "GET", name)
    pairs = {} if reply is None else _pairs(reply)
    return pairs.get(name)


def _skew() -> Exchange[float | None]:
    """Return how many seconds this clock is ahead of the server's. A skew below the round-trip time is not visible."""
    before = time.time()
    reply = yield from _or_none("TIME")
    after = time.time()
    if reply is None:
        return None
    server = float(reply[0]) + float(reply[1]) / 1e6
    return before - server if server < before else min(0.0, after - server)


def _allowed(needs: Requirements) -> Exchange[Allowed]:
    """Find out what the user may do. Keys are tried first, because commands can be checked only with permitted ones."""
    if reason := (yield from _refusal("EVAL", "return 1", 0)):
        return Allowed(scripts=reason)
    keys = []
    for rule, key in needs.keys:
        if (yield from _refusal("EVAL", "return 1", 1, key)):
            keys.append(rule)
    if needs.keys[0][0] in keys:
        return Allowed(keys=tuple(keys))
    if not (yield from _or_none("EVAL", "return redis.acl_check_cmd and 1 or 0", 1, needs.key)):
        return Allowed(keys=tuple(keys))
    replies = yield Command(("EVAL", _ASK, 1, needs.key, *needs.examples.values()))
    answers = {name: _text(reply) or "" for name, reply in zip(needs.examples, replies, strict=True)}
    commands = {name: answers.get(name, "unsure") for name in needs.commands}
    channels = commands.get("PUBLISH") != "no"
    if not channels and "channel" in (yield from _refusal("PUBLISH", needs.key, "")):
        # The command itself is permitted. Whether SUBSCRIBE is too can be known only with a permitted channel.
        commands = {name: answer for name, answer in commands.items() if name not in CHANNELS}
    return Allowed(None, commands, tuple(keys), channels)


def _refusal(*words: str | int) -> Exchange[str]:
    """Return the text with which the server refuses a command, or nothing."""
    try:
        yield Command(words)
    except RedisMessageQueueError as error:
        return str(error)
    return ""


def _one(info: Any) -> Mapping[str, Any]:
    """Return the INFO of one node; a cluster client returns one for each node."""
    if not info:
        return {}
    first = next(iter(info.values()))
    return first if isinstance(first, Mapping) and "redis_version" in first else info


def _pairs(reply: Any) -> dict[str, str]:
    """Return a CONFIG GET reply, of RESP 2 or 3, as a dict."""
    pairs = reply.items() if isinstance(reply, Mapping) else list(zip(reply[::2], reply[1::2], strict=True))
    return {_text(name) or "": _text(value) or "" for name, value in pairs}


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
