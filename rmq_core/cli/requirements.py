"""The Redis permissions that a queue needs: commands of its scripts and operations, its keys and its channels."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

import rmq_core.lua
from rmq_core.lua import load
from rmq_core.protocol import DISCIPLINES
from rmq_core.queue.keys import QUEUES, queues_of

_CALL = re.compile(r"""redis\.p?call\(\s*['"]([A-Z]+)['"](?:\s*,\s*['"]([A-Z]+)['"])?""")
_CONTAINERS = frozenset({"XGROUP", "XINFO", "OBJECT"})
_EVERYWHERE = ("EVAL", "EVALSHA", "PING", "SADD", "SMEMBERS", "SREM")
_SPECIAL = re.compile(r"([*?\[\]\\])")
_EXAMPLES = {
    name: arguments
    for arguments, names in (
        ("", "PING TIME"),
        (
            "K",
            (
                "BITCOUNT DEL EXISTS GET HLEN HVALS INCR LLEN LPOP MGET PERSIST PTTL RPOP SMEMBERS STRLEN SUBSCRIBE"
                " TYPE UNLINK XINFO|GROUPS XINFO|STREAM XLEN ZCARD"
            ),
        ),
        (
            "K 1",
            (
                "BITPOS BLPOP EXPIRE GETBIT HDEL HEXISTS HGET HMGET INCRBY LINDEX LPOS LPUSH PEXPIRE PUBLISH RPUSH SADD"
                " SET SREM XDEL XPENDING ZRANK ZREM ZSCORE"
            ),
        ),
        ("K K", "RENAME RENAMENX"),
        (
            "K 1 1",
            (
                "GETRANGE HINCRBY HSET HSETNX LRANGE LREM LSET LTRIM SETBIT XACK XGROUP|CREATE XGROUP|DELCONSUMER"
                " XGROUP|SETID XRANGE XREVRANGE ZADD ZCOUNT ZINCRBY ZRANGE ZRANGEBYSCORE ZREMRANGEBYRANK"
                " ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYSCORE"
            ),
        ),
        ("1 1 K", "EVAL EVALSHA"),
        ("K K LEFT RIGHT", "LMOVE"),
        ("K K LEFT RIGHT 1", "BLMOVE"),
        ("0 1", "WAIT"),
        ("0 0 1", "WAITAOF"),
        ("K 1 IDS 1 1", "XACKDEL"),
        ("K * 1 1", "XADD"),
        ("K 1 1 1 1", "XAUTOCLAIM XCLAIM"),
        ("K IDMP-DURATION 1", "XCFGSET"),
        ("STREAMS K 1", "XREAD"),
        ("GROUP 1 1 STREAMS K 1", "XREADGROUP"),
    )
    for name in names.split()
}
"""Arguments for each command, as many as it takes; K is a key. Before Redis checks permissions, some servers refuse a
wrong number of arguments, and others read beyond their end and crash."""
CHANNELS = frozenset({"PUBLISH", "SUBSCRIBE"})
"""The commands for which Redis also checks the channel."""


class Requirements(NamedTuple):
    """The permissions that a user needs for a queue, or, if `queue` is None, for all queues.

    commands: in capitals (`XGROUP|CREATE` for a subcommand). keys: for each ACL rule of keys, a key that it allows; the
    first one is a key of the queue's own. channels: the ACL rule for its channels.
    """

    queue: str | None
    commands: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    channels: str

    @property
    def key(self) -> str:
        """A key of the queue, which nothing else uses."""
        return self.keys[0][1]

    @property
    def examples(self) -> dict[str, str]:
        """A complete command by its name, with K in the place of keys; disciplines of other packages may lack some."""
        return {name: f"{name} {_EXAMPLES[name]}" for name in self.commands if name in _EXAMPLES}

    @property
    def rules(self) -> str:
        """The ACL rules that allow all of it, and nothing else."""
        channels = [self.channels] if CHANNELS & {*self.commands} else []
        return " ".join([*(f"+{name.lower()}" for name in self.commands), *(rule for rule, _ in self.keys), *channels])


def needed(discipline: str, queue: str | None) -> Requirements:
    """Return the permissions that a user needs for a queue, or for all queues."""
    record = DISCIPLINES[discipline]
    found = {*_EVERYWHERE, *record.commands}
    for folder in record.scripts or (discipline,):
        place = files(rmq_core.lua).joinpath(folder)
        for script in place.iterdir() if place.is_dir() else ():
            found |= commands_of(load(f"{folder}/{script.name.removesuffix('.lua')}").source.decode())
    prefix, name, registry = f"rmq:{record.keys}", queue or "rmq-doctor", QUEUES.decode()
    own = "rmq:*" if queue is None else f"{prefix}{{{pattern(queue)}}}:*"
    keys = [(f"~{own}", f"{prefix}{{{name}}}:doctor")]
    if record.bare and queue is not None:
        keys.append((f"~{pattern(queue)}", queue))
    keys += [(f"~{registry}", registry), (f"~{registry}:*", queues_of(discipline).decode())]
    return Requirements(queue, tuple(sorted(found)), tuple(keys), f"&{own}")


def pattern(name: str) -> str:
    """Return an ACL pattern for a name. Redis accepts no white space in patterns; `?` stands for it."""
    return re.sub(r"[ \t]", "?", _SPECIAL.sub(r"\\\1", name))


def commands_of(source: str) -> set[str]:
    """Return the commands that a script calls with a literal name."""
    return {f"{name}|{sub}" if sub and name in _CONTAINERS else name for name, sub in _CALL.findall(source)}
