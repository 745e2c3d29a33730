"""Golden files: the keys of a database as text that people can read and that can be loaded into an empty database.

A block describes one key: its name, its type, after how many seconds it expires, and its values, one a line. Bytes that
are not printable ASCII are escaped as in Python, an empty value is `\\e`. `*4000 value` means 4,000 equal elements.
What differs from run to run has a placeholder: `$now+300` is a time in milliseconds, 300 s after the time of loading;
`$seconds` is that time in seconds; `$entry3` is the third id of a stream. Times are rounded down to minutes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

SEPARATOR = " => "
_UNIT_S = 60
_DAY_MS, _YEAR_MS = 86_400_000, 365 * 86_400_000
_VOLATILE = re.compile(rb"(?<![0-9a-f])(\d{13})(?![0-9a-f])|(?<=\|)(\d{10})(?!\d)")
_TOKEN = re.compile(r"\\(x[0-9a-f]{2}|[nte\\])|\$(now|seconds)([+-]\d+)?|\$entry(\d+)")
_NAMED = {10: "\\n", 9: "\\t", 92: "\\\\"}
_PLAIN = {"n": b"\n", "t": b"\t", "e": b"", "\\": b"\\"}


def now_ms(client: Any) -> int:
    """The time of the server."""
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def dump(client: Any, since_ms: int, kept: Callable[[bytes], bool] = lambda _: True) -> str:
    """Every key of a database for which `kept` is true, as text; `since_ms` is the time before the first write."""
    names = sorted(filter(kept, client.scan_iter(count=1000)))
    return "\n".join("\n".join(_block(client, name, since_ms)) + "\n" for name in names)


def load(client: Any, text: str) -> None:
    """Store the keys that a golden file describes."""
    stamp = now_ms(client)
    for block in text.strip().split("\n\n"):
        _load(client, block.split("\n"), stamp)


def shown(value: bytes, since_ms: int) -> str:
    """A value as a golden file shows it."""
    if not value:
        return "\\e"
    text, at = "", 0
    for found in _VOLATILE.finditer(value):
        text += _escaped(value[at : found.start()]) + _placeholder(found, since_ms)
        at = found.end()
    return text + _escaped(value[at:])


def _placeholder(found: re.Match[bytes], since_ms: int) -> str:
    word, unit = ("now", 1) if found[1] else ("seconds", 1000)
    passed_ms = int(found[0]) * unit - since_ms // unit * unit
    if not -_DAY_MS < passed_ms < _YEAR_MS:
        return found[0].decode()
    rounded = passed_ms // 1000 // _UNIT_S * _UNIT_S
    return f"${word}{rounded:+d}" if rounded else f"${word}"


def _escaped(value: bytes) -> str:
    return "".join(
        _NAMED.get(byte) or (chr(byte) if 32 <= byte < 127 and byte != ord("$") else f"\\x{byte:02x}") for byte in value
    )


def _block(client: Any, name: bytes, since_ms: int) -> Iterator[str]:
    kind = client.type(name).decode()
    yield f"key {shown(name, since_ms)}"
    yield f"type {kind}"
    left_ms = client.pttl(name)
    if left_ms > 0:
        yield f"expires {-(-left_ms // (1000 * _UNIT_S)) * _UNIT_S}"
    if kind == "stream":
        yield from _stream(client, name, since_ms)
        return
    values = [[shown(part, since_ms) for part in parts] for parts in _READERS[kind](client, name)]
    for value, equal in itertools.groupby(map(SEPARATOR.join, _ordered(kind, values))):
        count = len(list(equal))
        yield f"  {value}" if count == 1 else f"*{count} {value}"


def _ordered(kind: str, values: list[list[str]]) -> list[list[str]]:
    """Return the values; members of a sorted set whose scores are shown alike are sorted by name."""
    alike = itertools.groupby(values, key=lambda parts: parts[0])
    return [parts for _, group in alike for parts in sorted(group)] if kind == "zset" else values


def _score(score: float) -> bytes:
    return b"%d" % score if score.is_integer() else str(score).encode()


_READERS: dict[str, Callable[[Any, bytes], Iterable[tuple[bytes, ...]]]] = {
    "string": lambda client, name: [(client.get(name),)],
    "list": lambda client, name: ((item,) for item in client.lrange(name, 0, -1)),
    "set": lambda client, name: ((item,) for item in sorted(client.smembers(name))),
    "hash": lambda client, name: sorted(client.hgetall(name).items()),
    "zset": lambda client, name: (
        (_score(score), member) for member, score in client.zrange(name, 0, -1, withscores=True)
    ),
}


def _stream(client: Any, name: bytes, since_ms: int) -> Iterator[str]:
    entries, groups = client.xrange(name), client.xinfo_groups(name)
    pending = {
        group["name"]: client.xpending_range(name, group["name"], "-", "+", 10_000) if group["pending"] else []
        for group in groups
    }
    ids = {entry[0] for entry in entries} | {group["last-delivered-id"] for group in groups}
    labels = _labels(ids | {one["message_id"] for held in pending.values() for one in held}, since_ms)
    for entry_id, fields in entries:
        pairs = [shown(part, since_ms) for pair in fields.items() for part in pair]
        yield f"  {SEPARATOR.join([labels[entry_id], *pairs])}"
    for group in groups:
        label = shown(group["name"], since_ms)
        yield f"group {SEPARATOR.join([label, labels[group['last-delivered-id']]])}"
        for consumer in sorted(one["name"] for one in client.xinfo_consumers(name, group["name"])):
            yield f"consumer {SEPARATOR.join([label, shown(consumer, since_ms)])}"
        for one in pending[group["name"]]:
            idle = int(one["time_since_delivered"] / 1000 // _UNIT_S) * _UNIT_S
            parts = [label, labels[one["message_id"]], shown(one["consumer"], since_ms), str(idle)]
            yield f"pending {SEPARATOR.join([*parts, str(one['times_delivered'])])}"


def _labels(ids: Iterable[bytes], since_ms: int) -> dict[bytes, str]:
    ordered = sorted(ids, key=lambda each: tuple(map(int, each.split(b"-"))))
    recent = [each for each in ordered if int(each.split(b"-")[0]) > since_ms - _DAY_MS]
    return {each: each.decode() for each in ordered} | {each: f"$entry{at + 1}" for at, each in enumerate(recent)}


def _load(client: Any, lines: list[str], stamp: int) -> None:
    name, kind, rest = _value(lines[0].removeprefix("key "), stamp), lines[1].removeprefix("type "), lines[2:]
    expires = int(rest.pop(0).split(" ")[1]) if rest and rest[0].startswith("expires ") else None
    if kind == "stream":
        _load_stream(client, name, rest, stamp)
    else:
        items = [item for line in rest for item in _items(line, stamp)]
        _WRITERS[kind](client, name, items)
    if expires is not None:
        client.pexpire(name, expires * 1000)


def _items(line: str, stamp: int) -> list[list[bytes]]:
    count, _, text = line[1:].partition(" ") if line.startswith("*") else ("1", "", line[2:])
    return [_parts(text, stamp)] * int(count)


def _parts(text: str, stamp: int) -> list[bytes]:
    return [_value(part, stamp) for part in text.split(SEPARATOR)]


def _value(text: str, stamp: int) -> bytes:
    found, at = b"", 0
    for token in _TOKEN.finditer(text):
        found += text[at : token.start()].encode("ascii") + _meant(token, stamp)
        at = token.end()
    return found + text[at:].encode("ascii")


def _meant(token: re.Match[str], stamp: int) -> bytes:
    escape, word, offset, entry = token.groups()
    if escape:
        return _PLAIN[escape] if escape in _PLAIN else bytes([int(escape[1:], 16)])
    if entry:
        return b"%d-%d" % (stamp, int(entry))
    return b"%d" % (stamp + int(offset or 0) * 1000 if word == "now" else stamp // 1000 + int(offset or 0))


_WRITERS: dict[str, Callable[[Any, bytes, list[list[bytes]]], Any]] = {
    "string": lambda client, name, items: client.set(name, items[0][0]),
    "list": lambda client, name, items: client.rpush(name, *(item[0] for item in items)),
    "set": lambda client, name, items: client.sadd(name, *(item[0] for item in items)),
    "hash": lambda client, name, items: client.hset(name, mapping=dict(items)),
    "zset": lambda client, name, items: client.zadd(name, {member: score.decode() for score, member in items}),
}


def _load_stream(client: Any, name: bytes, lines: list[str], stamp: int) -> None:
    for line in lines:
        word, _, text = line.partition(" ") if not line.startswith("  ") else ("entry", "", line[2:])
        parts = _parts(text, stamp)
        if word == "entry":
            client.execute_command("XADD", name, *parts)
        elif word == "group":
            client.execute_command("XGROUP", "CREATE", name, *parts, "MKSTREAM")
        elif word == "consumer":
            client.xgroup_createconsumer(name, *parts)
        else:
            group, entry, consumer, idle, deliveries = parts
            client.xclaim(
                name, group, consumer, 0, [entry], idle=int(idle) * 1000, retrycount=int(deliveries), force=True,
                justid=True,
            )  # fmt: skip
