"""Compares facts about a server with what queues need, and returns findings. Pure functions, without IO."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from rmq_core.cli.facts import Facts

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
    for field in ("rdb_last_bgsave_status", "aof_last_write_status"):
        if info.get(field, "ok") != "ok":
            yield Finding(
                Level.FAIL, what, f"{field}: {info[field]}", "Redis refuses writes then: see its log and its disk"
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
