"""Checks in which format queues are stored, without opening them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rmq_core.cli.checks import Finding, Level
from rmq_core.cli.opening import Registered, Server
from rmq_core.errors import RedisMessageQueueError
from rmq_core.exchange import Command
from rmq_core.exchange.stored_format import FORMAT, format_key


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
        if stored != str(FORMAT):
            advice = f"this version reads format {FORMAT}: install RMQ {needs or 'of a later version'} or later"
            findings.append(Finding(Level.FAIL, "format", f"{name} is stored in format {stored}", advice))
    if unread:  # of other users, for example
        more = f", and {len(unread) - 1:,} other queues" if unread[1:] else ""
        findings.append(Finding(Level.UNKNOWN, "format", f"{unread[0]}{more}"))
    return findings or [Finding(Level.OK, "format", f"format {FORMAT} ({count})")]


def _stored(server: Server, name: str, discipline: str) -> tuple[str, str]:
    """Return the format of a queue, and the first version of RMQ that reads it."""
    with server.queue(name, discipline) as opened:
        queue: Any = opened
        prefix = queue._engine.prefix  # noqa: SLF001  only the engine knows it
    found = server.ask(_read(format_key(prefix)))
    text = found.decode(errors="replace") if isinstance(found, bytes) else found or str(FORMAT)
    stored, _, needs = text.partition(" ")
    return stored, needs


def _read(key: bytes) -> Any:
    return (yield Command(("GET", key)))
