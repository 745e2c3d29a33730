"""The facts that `rmq doctor` reads, what queues require, and the findings. Facts that may not be read are unknown."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from rmq_cli.opening import Registered, Server
from rmq_cli.output import counted
from rmq_core.admin.verbs import can
from rmq_core.connection.clients import is_cluster
from rmq_core.errors import RedisMessageQueueError
from rmq_core.exchange import Command, Exchange
from rmq_core.exchange.loading import LAYOUTS, load, names
from rmq_core.exchange.scripts import FORMATS, format_key
from rmq_core.kernel.keys import QUEUES, queues_of
from rmq_core.observe.history import pause_reason
from rmq_core.protocol import DEFAULT, DISCIPLINES
from rmq_core.reports import ShardStats

_CALL = re.compile(r"""redis\.p?call\(\s*['"]([A-Z]+)['"](?:\s*,\s*['"]([A-Z]+)['"])?""")
_CONTAINERS = frozenset({"MEMORY", "OBJECT", "XGROUP", "XINFO"})
_EVERYWHERE = ("EVAL", "EVALSHA", "PING", "SADD", "SMEMBERS", "SREM")
*_FIRST, _LAST = map(str, FORMATS)
_READ = f"{', '.join(_FIRST)} and {_LAST}"
_SPECIAL = re.compile(r"([*?\[\]\\])")
_EXAMPLES = {
    name: arguments
    for arguments, names in (
        ("", "EXEC MULTI PING TIME"),
        (
            "K",
            (
                "BITCOUNT DEL EXISTS GET HGETALL HKEYS HLEN HRANDFIELD HVALS INCR LLEN LPOP MGET PERSIST"
                " PTTL RPOP SMEMBERS STRLEN SUBSCRIBE MEMORY|USAGE TYPE UNLINK XINFO|GROUPS XINFO|STREAM XLEN ZCARD"
            ),
        ),
        (
            "K 1",
            (
                "BITPOS BLPOP EXPIRE GETBIT HDEL HEXISTS HGET HMGET HSCAN HSTRLEN INCRBY LINDEX LPOS LPUSH PEXPIRE"
                " PUBLISH RPUSH SADD SET SREM XDEL XPENDING ZMSCORE ZRANK ZREM ZSCORE"
            ),
        ),
        ("K K", "RENAME RENAMENX"),
        ("K STORE K", "SORT"),
        ("K 1 K", "ZUNIONSTORE"),
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
    first one is a key of the queue's own. channels: the ACL rules for its channels.
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


def needed(discipline: str, queue: str | None, *, in_shards: bool = False) -> Requirements:
    """Return the permissions that a user needs for a queue, or for all queues.

    in_shards: the queue is stored in shards, or is to be.
    """
    record = DISCIPLINES[discipline]
    found = {*_EVERYWHERE, *record.commands}
    for script in names(f"{discipline}/", *record.scripts):
        for layout, folder in LAYOUTS.items():
            if not layout or folder.startswith(f"{discipline}/"):
                found |= commands_of(load(script, layout).source.decode())
    prefix, name, registry = f"rmq:{record.keys}", queue or "rmq-doctor", QUEUES.decode()
    own = "rmq:*" if queue is None else f"{prefix}{{{pattern(queue)}}}:*"
    keys = [(f"~{own}", f"{prefix}{{{name}}}:doctor")]
    if record.bare and queue is not None:
        keys.append((f"~{pattern(queue)}", queue))
    keys += [(f"~{registry}", registry), (f"~{registry}:*", queues_of(discipline).decode())]
    channels = f"&{own}"
    if in_shards and queue is not None:
        shards = f"rmq:shard:{{{pattern(queue)}~*}}:*"
        keys.append((f"~{shards}", f"rmq:shard:{{{queue}~1}}:doctor"))
        channels += f" &{shards}"
    return Requirements(queue, tuple(sorted(found)), tuple(keys), channels)


def pattern(name: str) -> str:
    """Return an ACL pattern for a name. Redis accepts no white space in patterns; `?` stands for it."""
    return re.sub(r"[ \t]", "?", _SPECIAL.sub(r"\\\1", name))


def commands_of(source: str) -> set[str]:
    """Return the commands that a script calls with a literal name."""
    return {f"{name}|{sub}" if sub and name in _CONTAINERS else name for name, sub in _CALL.findall(source)}


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


UNKNOWN = Allowed()


@dataclass(frozen=True)
class Facts:
    """Facts about a server; an unknown fact is None."""

    info: Mapping[str, Any]
    save: str | None = None
    appendfsync: str | None = None
    skew_s: float | None = None
    user: str | None = None
    needs: Requirements = field(default_factory=lambda: needed(DEFAULT, None))
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
        clients=(yield from _client_names()),
    )


def _or_none(*words: str | int) -> Exchange[Any]:
    try:
        return (yield Command(words))
    except RedisMessageQueueError:
        return None


def _client_names() -> Exchange[tuple[str, ...] | None]:
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


_OLDEST = (6, 2)
_SKEWED_S = 1.0
_NEARLY = 0.8
_VERSION = re.compile(r"\brmq_v([^;)]+)")


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """The result of one check: its subject, what it found, and advice."""

    level: Level
    what: str
    found: str
    advice: str = ""


def examine(facts: Facts) -> list[Finding]:
    """Return all findings, in the order of display."""
    found = [_permissions(facts)]
    if facts.info:
        found = [_version(facts), _role(facts), *_persistence(facts), *_memory(facts), *found]
    else:
        found.append(
            Finding(Level.UNKNOWN, "server", "INFO is refused", _allow(facts, "+info") + " for the other checks")
        )
    return [*found, _clock(facts), _clients(facts)]


def _version(facts: Facts) -> Finding:
    info = facts.info
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version") or info.get("redis_version", "?"))
    spoken = tuple(int(part) for part in str(info.get("redis_version", "0.0")).split(".")[:2])
    if spoken < _OLDEST:
        return Finding(Level.FAIL, "version", f"{name} {version}", "upgrade to Redis 6.2 or later, or to Valkey")
    return Finding(Level.OK, "version", f"{name} {version}, {info.get('redis_mode', 'standalone')}")


def _role(facts: Facts) -> Finding:
    role, replicas = facts.info.get("role", "master"), facts.info.get("connected_slaves", 0)
    if role != "master":
        return Finding(Level.FAIL, "role", "replica", "connect to the primary: a replica takes no writes")
    return Finding(Level.OK, "role", f"primary with {replicas} replicas")


def _persistence(facts: Facts) -> Iterator[Finding]:
    info, what = facts.info, "persistence"
    on = "CONFIG SET appendonly yes, and the same in redis.conf"
    if info.get("aof_enabled"):
        yield _appendonly(facts)
    elif facts.save == "" and not info.get("connected_slaves"):
        yield Finding(Level.FAIL, what, "none", f"a restart loses every message: {on}")
    elif facts.save == "":
        yield Finding(Level.WARN, what, "none, only replicas", f"if all restart, every message is lost: {on}")
    elif facts.save is None:
        found = "no append-only file; the user may not read whether Redis takes snapshots"
        yield Finding(Level.WARN, what, found, f"a crash loses what came after the last snapshot: {on}")
    else:
        yield Finding(
            Level.WARN, what, f"snapshots ({facts.save})", f"a crash loses what came after the last one: {on}"
        )
    for status in ("rdb_last_bgsave_status", "aof_last_write_status"):
        if info.get(status, "ok") != "ok":
            yield Finding(
                Level.FAIL, what, f"{status}: {info[status]}", "Redis refuses writes then: see its log and its disk"
            )


def _appendonly(facts: Facts) -> Finding:
    if facts.appendfsync == "no":
        advice = "a power cut loses what the operating system had not written yet: CONFIG SET appendfsync everysec"
        return Finding(Level.WARN, "persistence", "append-only file, appendfsync no", advice)
    synced = f", appendfsync {facts.appendfsync}" if facts.appendfsync else ""
    return Finding(Level.OK, "persistence", f"append-only file{synced}")


def _memory(facts: Facts) -> Iterator[Finding]:
    info = facts.info
    limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    share = used / limit if limit else 0.0
    if not limit:
        advice = "without a limit, the kernel may kill Redis: CONFIG SET maxmemory to what the machine can spare"
        yield Finding(Level.WARN, "maxmemory", "no limit", advice)
    elif share >= _NEARLY:
        level = Level.FAIL if share >= 1 else Level.WARN
        advice = "publishing is refused at the limit: drain queues or raise maxmemory"
        yield Finding(level, "maxmemory", f"{share:.0%} used", advice)
    else:
        yield Finding(Level.OK, "maxmemory", f"{share:.0%} used")
    yield _eviction(str(info.get("maxmemory_policy", "noeviction")), limit)


def _eviction(policy: str, limit: int) -> Finding:
    change = "CONFIG SET maxmemory-policy noeviction, or give queues a server of their own"
    if policy == "noeviction":
        return Finding(Level.OK, "eviction", policy)
    if policy.startswith("volatile"):
        advice = f"at maxmemory, deduplication keys and records of settled leases may be evicted: {change}"
        return Finding(Level.WARN, "eviction", policy, advice)
    level = Level.FAIL if limit else Level.WARN
    return Finding(level, "eviction", policy, f"at maxmemory, whole queues are deleted: {change}")


def _clock(facts: Facts) -> Finding:
    skew_s = facts.skew_s
    if skew_s is None:
        return Finding(Level.UNKNOWN, "clock", "TIME is refused", _allow(facts, "+time"))
    if abs(skew_s) < _SKEWED_S:
        return Finding(Level.OK, "clock", "agrees with ours")
    found = f"ours is {abs(skew_s):,.0f} s {'ahead' if skew_s > 0 else 'behind'}"
    advice = "leases follow the server's clock and are safe, but ages and deadlines look wrong here: run NTP on both"
    return Finding(Level.WARN, "clock", found, advice)


def _clients(facts: Facts) -> Finding:
    if facts.clients is None:
        found = "the server does not report which versions of RMQ are connected"
        advice = f"Redis 7.2 or later reports it; {_allow(facts, '+client|list')}"
        return Finding(Level.UNKNOWN, "clients", found, advice)
    versions = Counter(found for name in facts.clients for found in _VERSION.findall(name))
    others = len(facts.clients) - versions.total()
    found = ", ".join(f"RMQ {version} ({count})" for version, count in sorted(versions.items()))
    found += f", others ({others})" if others else ""
    if len(versions) > 1:
        advice = "only neighbouring minor versions may use a queue together, see SUPPORT.md: finish the upgrade"
        return Finding(Level.WARN, "clients", found, advice)
    return Finding(Level.OK, "clients", found)


def _permissions(facts: Facts) -> Finding:
    what, who, allowed, needs = "permissions", f"user {facts.user or '?'}", facts.allowed, facts.needs
    own, named = needs.keys[0][0], "rmq doctor QUEUE names the permissions that a queue needs"
    # Rules for keys and channels only where they are known to be missing: Redis refuses one that adds nothing.
    commands = " ".join(f"+{name.lower()}" for name in needs.commands)
    if allowed.scripts:
        advice = named if needs.queue is None else _allow(facts, commands)
        return Finding(Level.FAIL, what, f"{who} cannot run scripts: {allowed.scripts}", advice)
    if own not in allowed.keys:
        return _commands(facts, who)
    if needs.queue is None:
        return Finding(Level.UNKNOWN, what, f"{who} may use the keys of some queues only", named)
    found = f"{who} may not use the keys {own}; commands can be checked only with a permitted key"
    return Finding(Level.FAIL, what, found, _allow(facts, " ".join([commands, *allowed.keys])))


def _commands(facts: Facts, who: str) -> Finding:
    """Check the commands, channels and other keys of a user who may use the queue's own keys."""
    what, allowed, needs = "permissions", facts.allowed, facts.needs
    answers = allowed.commands or {}
    missing = [f"+{name.lower()}" for name, answer in answers.items() if answer == "no"]
    unsure = [name.lower() for name, answer in answers.items() if answer == "unsure"]
    channels = [needs.channels] if allowed.channels is False else []
    found = [f"lacks {len(missing)} commands"] if missing else []
    found += [f"may not use the keys {' '.join(allowed.keys)}"] if allowed.keys else []
    found += [f"may not use the channels {needs.channels}"] if channels and "+publish" not in missing else []
    if found:
        advice = _allow(facts, " ".join([*missing, *allowed.keys, *channels]))
        return Finding(Level.FAIL, what, f"{who} {' and '.join(found)}", advice)
    if allowed.commands is None:
        text = f"{who} can run scripts and use the keys; this server does not report more"
        return Finding(Level.UNKNOWN, what, text, "only Redis 7 and later report which commands a user may run")
    if unsure:
        return Finding(Level.UNKNOWN, what, f"the server did not say whether {who} may run {', '.join(unsure)}")
    return Finding(Level.OK, what, f"{who} may do all that is needed")


def _allow(facts: Facts, rules: str) -> str:
    return f"ACL SETUSER {facts.user or '<user>'} {rules}"


def examine_formats(server: Server, queues: Iterable[Registered]) -> list[Finding]:
    """Return a finding for each queue in another format than this version reads, or one for all."""
    count, findings, unread = 0, list[Finding](), list[str]()
    for name, discipline in queues:
        count += 1
        try:
            stored, needs = _stored(server, name, discipline)
        except RedisMessageQueueError as error:
            unread.append(f"{name}: {error}")
            continue
        if stored not in map(str, FORMATS):
            advice = f"this version reads formats {_READ}: install RMQ {needs or 'of a later version'} or later"
            findings.append(Finding(Level.FAIL, "format", f"{name} is stored in format {stored}", advice))
    if unread:  # of other users, for example
        more = f", and {len(unread) - 1:,} other queues" if unread[1:] else ""
        findings.append(Finding(Level.UNKNOWN, "format", f"{unread[0]}{more}"))
    return findings or [Finding(Level.OK, "format", f"formats {_READ} ({count})")]


def _stored(server: Server, name: str, discipline: str) -> tuple[str, str]:
    """Return the format of a queue, and the first version of RMQ that reads it."""
    with server.queue(name, discipline) as opened:
        queue: Any = opened
        prefix = queue._engine.prefix  # noqa: SLF001  only the engine knows it
    found = server.ask(_read(format_key(prefix)))
    text = found.decode(errors="replace") if isinstance(found, bytes) else found or "1"
    stored, _, needs = text.partition(" ")
    return stored, needs


def _read(key: bytes) -> Any:
    return (yield Command(("GET", key)))


def in_shards(server: Server, name: str, discipline: str) -> bool:
    """Return whether a queue is stored in shards, as far as the user may know."""
    try:
        return FORMATS.get(int(_stored(server, name, discipline)[0])) == "sharded"
    except (RedisMessageQueueError, ValueError):  # another finding reports it
        return False


def examine_shards(queue: Any) -> Iterator[Finding]:
    """Yield what is wrong with the shards of a queue that has some, else an OK."""
    found = queue.admin.shards() if can(queue, "shards") else []
    if not found:
        return
    known, what, count = queue.config.shards, "shards", 0
    again = f"rmq configure {queue.name} shards={len(known.names)}"
    for each in found:
        if each.error:
            told = f"shard {each.name} (slot {each.slot}) does not answer: {each.error}"
            yield Finding(Level.FAIL, what, told, "see the node of the cluster that has this slot: CLUSTER SLOTS")
        elif each.epoch != known.epoch:
            told = f"shard {each.name} knows change {each.epoch} of the shards, and the settings {known.epoch}"
            yield Finding(Level.FAIL, what, told, f"publishers are refused there: {again}")
        else:
            count += 1
    if not known.settled:
        yield Finding(Level.WARN, what, "a change of the shards has not ended", f"publishers complete it, or {again}")
    else:
        yield from _left_behind(queue, [each for each in found if each.draining], again)
    yield from _spread_of(queue, [each.name for each in found if not each.draining])
    if count == len(found):
        yield Finding(Level.OK, what, f"{count} of {count} answer and know the map")


def _left_behind(queue: Any, draining: Sequence[ShardStats], again: str) -> Iterator[Finding]:
    """Yield what former shards still hold. Claims do not take dead letters, so these keep a shard."""
    stats = {each.name: each.stats for each in draining if each.stats}
    letters = {name: one.dead for name, one in stats.items() if one.dead}
    waiting = {name: one.ready + one.delayed + one.leased for name, one in stats.items()}
    if letters:
        told = (
            f"{', '.join(letters)} get no more messages, and stay for {counted(sum(letters.values()), 'dead letter')}"
        )
        yield Finding(Level.WARN, "shards", told, f"redrive or delete them: rmq dlq redrive {queue.name}; then {again}")
    elif held := [name for name, many in waiting.items() if many]:
        told = f"{', '.join(held)} only have their messages claimed: {counted(sum(waiting.values()), 'message')}"
        yield Finding(Level.OK, "shards", told, f"once they are empty and keys are forgotten, {again} removes them")
    elif stats:
        told = f"{', '.join(stats)} are empty and get no more messages"
        yield Finding(Level.OK, "shards", told, f"once keys of before are forgotten, {again} removes them")


def _spread_of(queue: Any, names: Sequence[str]) -> Iterator[Finding]:
    """Yield how the nodes of a cluster share the shards that get messages, if one has many more than others."""
    if not is_cluster(queue.client):
        return
    slots = {name: f"{{{queue.name}}}" if name == names[0] else f"{{{queue.name}~{name}}}" for name in names}
    each_has = Counter({node.name: 0 for node in queue.client.get_primaries()})
    each_has.update(queue.client.get_node_from_key(slot).name for slot in slots.values())
    (node, most), mean = each_has.most_common(1)[0], len(names) / len(each_has)
    if most > 1 and most >= _UNEVEN * mean:
        told = f"{node} has {most} of {len(names)} shards, and the mean of {len(each_has)} nodes is {mean:.1f}"
        yield Finding(Level.WARN, "shards", told, "move slots of the cluster, or configure another number of shards")


_UNEVEN = 2
_ADVICE = "claims get nothing until `rmq resume QUEUE` (in Python, `queue.admin.resume()`)"


def paused(queue: Any) -> str | None:
    """Return a text that says the queue is paused, by whom, and what to do; None when it is not paused."""
    found = why_paused(queue) if can(queue, "resume") and queue.stats().paused else None
    return found and f"{queue.name} is {found}; {_ADVICE}"


def why_paused(queue: Any) -> str:
    """Return who paused a paused queue, and why; `paused` alone where the user may not read its history."""
    try:
        return pause_reason(queue.admin.marks())
    except RedisMessageQueueError:
        return "paused"


def examine_settings(queue: Any) -> Iterator[Finding]:
    """Yield what settings are stored with the queue, and which programs pass others."""
    found = queue.admin.settings()
    for each in found.differing:
        told = f"{each.program} passed {each.passes} at {each.at:%Y-%m-%d %H:%M} UTC, which is not used"
        yield Finding(
            Level.WARN, "settings", told, f"remove it there, or `rmq configure {queue.name}` stores it for all"
        )
    yield Finding(Level.OK, "settings", f"{queue.name} stores {found.plain['settings']}")


def examine_pause(queue: Any) -> Finding:
    """Return the finding of `rmq doctor` about a pause."""
    if can(queue, "resume") and queue.stats().paused:
        return Finding(Level.WARN, "pause", f"{queue.name} is {why_paused(queue)}", _ADVICE)
    return Finding(Level.OK, "pause", f"{queue.name} hands out messages")
