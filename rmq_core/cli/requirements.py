"""Which commands a discipline sends: read off its scripts, plus the few that are sent plainly."""

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
    """Commands in capitals, subcommands behind a bar, each with a key to try it on; and the rules for keys."""

    commands: tuple[tuple[str, str], ...]
    keys: str
    key: str


def needed(discipline: str, queue: str) -> Requirements:
    """What a user needs for a queue."""
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
    """The commands that a script calls by their names."""
    return {f"{name}|{sub}" if sub and name in _CONTAINERS else name for name, sub in _CALL.findall(source)}
