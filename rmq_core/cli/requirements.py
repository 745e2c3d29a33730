"""Lists the commands that a discipline sends: those that its scripts call, plus the few sent outside of scripts."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

import rmq_core.lua
from rmq_core.lua import load
from rmq_core.protocol import DISCIPLINES
from rmq_core.queue.keys import QUEUES

_CALL = re.compile(r"""redis\.p?call\(\s*['"]([A-Z]+)['"](?:\s*,\s*['"]([A-Z]+)['"])?""")
_CONTAINERS = frozenset({"XGROUP", "XINFO", "OBJECT"})
_EVERYWHERE = ("EVAL", "EVALSHA")
_REGISTRY = ("SADD", "SMEMBERS")


class Requirements(NamedTuple):
    """The permissions that a user needs.

    commands: pairs of a command in capitals (`XGROUP|CREATE` for a subcommand) and a key to check it with. keys: ACL
    rules for the keys. key: a key to run scripts with.
    """

    commands: tuple[tuple[str, str], ...]
    keys: str
    key: str


def needed(discipline: str, queue: str) -> Requirements:
    """Return the permissions that a user needs for a queue."""
    record = DISCIPLINES[discipline]
    found = {*_EVERYWHERE, *record.commands}
    for folder in record.scripts or (discipline,):
        place = files(rmq_core.lua).joinpath(folder)
        for script in place.iterdir() if place.is_dir() else ():
            found |= commands_of(load(f"{folder}/{script.name.removesuffix('.lua')}").source.decode())
    key = f"rmq:{record.keys}{{{queue}}}:doctor"
    tried = [(name, key) for name in sorted(found)] + [(name, QUEUES.decode()) for name in _REGISTRY]
    own = f" ~{queue}" if record.bare else ""
    return Requirements(tuple(tried), f"~rmq:*{own}", key)


def commands_of(source: str) -> set[str]:
    """Return the commands that a script calls with a literal name."""
    return {f"{name}|{sub}" if sub and name in _CONTAINERS else name for name, sub in _CALL.findall(source)}
