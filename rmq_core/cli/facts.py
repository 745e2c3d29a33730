"""Reads the facts that `rmq doctor` checks; changes nothing. A fact that the user may not read is unknown."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmq_core.cli.requirements import Requirements
from rmq_core.errors import RedisMessageQueueError
from rmq_core.exchange import Command, Exchange

_ASK = b"""
local refused = {}
for at = 1, #ARGV, 2 do
  local words = {}
  for word in string.gmatch(ARGV[at], '[^|]+') do words[#words + 1] = word end
  for _ = 1, 3 do words[#words + 1] = ARGV[at + 1] end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if known and not allowed then refused[#refused + 1] = ARGV[at] end
end
return refused
"""


@dataclass(frozen=True)
class Facts:
    """Facts about a server; an unknown fact is None."""

    info: Mapping[str, Any]
    save: str | None = None
    appendfsync: str | None = None
    skew_s: float | None = None
    user: str | None = None
    scripts: str | None = None
    """Why scripts cannot be run."""
    refused: tuple[str, ...] | None = None
    keys: str = "~rmq:*"
    """Rules for the keys that the user needs."""
    clients: tuple[str, ...] | None = None
    """The library name of each connection."""


def gather(needs: Requirements) -> Exchange[Facts]:
    """Read all facts from the server."""
    info = yield from _or_none("INFO", "everything")
    scripts, refused = yield from _permissions(needs)
    return Facts(
        info=_one(info),
        save=(yield from _setting("save")),
        appendfsync=(yield from _setting("appendfsync")),
        skew_s=(yield from _skew()),
        user=_text((yield from _or_none("ACL", "WHOAMI"))),
        scripts=scripts,
        refused=refused,
        keys=needs.keys,
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


def _permissions(needs: Requirements) -> Exchange[tuple[str | None, tuple[str, ...] | None]]:
    """Return the reason why scripts cannot run, and the refused commands; None for these on a server before Redis 7."""
    try:
        yield Command(("EVAL", "return 1", 1, needs.key))
    except RedisMessageQueueError as error:
        return str(error), None
    reply = yield from _or_none("EVAL", "return redis.acl_check_cmd and 1 or 0", 1, needs.key)
    if not reply:
        return None, None
    refused = yield Command(("EVAL", _ASK, 1, needs.key, *(word for pair in needs.commands for word in pair)))
    return None, tuple(_text(name) or "" for name in refused)


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
