"""Extends and settles leases: one in a single shard there, one in parts as its home decides."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from rmq_core.errors import ConfigurationError, LeaseLost, ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Command, Exchange, text_of
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settling import Some, extend_each, of_lease
from rmq_core.leased import settling
from rmq_core.leased.publishing import PEACE_MS, apart, check, confirming
from rmq_core.leased.shards.publishing import knock
from rmq_core.leased.shards.reclaiming import finish_parts, listing
from rmq_core.leased.shards.state import FIRST, Sharded, checked, sharded
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease, token_of
from rmq_core.reports import Outcome, SettleReport


def extend(engine: LeasedEngine, lease: Lease, by: timedelta | float | None = None) -> Exchange[datetime | None]:
    """Move the deadline; that of a lease in parts is at its home."""
    shards, name = sharded(engine), sharded(engine).of_lease(lease.id)
    return (yield from shards.at(name, settling.extend(shards.engines[name], lease, by)))


def extend_all(engine: LeasedEngine, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool | None]]:
    """Extend many leases, those of a node in one write; return None for each whose shard does not answer.

    Raises the error if none answers.
    """
    shards, of = sharded(engine), [sharded(engine).of_lease(lease.id) for lease, _ in leases]

    def some(name: str, one: LeasedEngine) -> Exchange[list[bool]]:
        mine = [each for each, at in zip(leases, of, strict=True) if at == name]
        return extend_each(settling.extension(one, lease, by) for lease, by in mine)

    found = yield from shards.across(dict.fromkeys(of), some)
    answered = {name: each for name, each in found.items() if not isinstance(each, Exception)} or checked(found)
    kept = {name: iter(each) for name, each in answered.items()}
    return [next(kept[name]) if name in kept else None for name in of]


def ack(engine: LeasedEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Finish all messages of a lease, or only the given ones, as `leased.settling.ack` does."""
    shards = sharded(engine)
    if not lease.parts:
        name = shards.of_lease(lease.id)
        return (yield from shards.at(name, settling.ack(shards.engines[name], lease, messages)))
    if messages is not None:
        return (yield from _some(engine, lease, "ack", messages))
    with lease.state:
        yield from _verified(engine, shards, lease)
        return (yield from _decided(engine, lease))


def nack(
    engine: LeasedEngine,
    lease: Lease,
    messages: Some | None = None,
    *,
    delay: timedelta | float | None = None,
    reason: str | None = None,
) -> Exchange[SettleReport]:
    """Requeue messages as failed, as `leased.settling.nack` does."""
    delays = settling.delays_of(engine, lease, delay)
    return (yield from _returned(engine, lease, messages, "nack", delays, reason))


def release(engine: LeasedEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Requeue messages without counting a delivery."""
    return (yield from _returned(engine, lease, messages, "release"))


def reject(engine: LeasedEngine, lease: Lease, messages: Some, *, reason: str) -> Exchange[SettleReport]:
    """Make messages of a lease dead letters at once, as `leased.settling.reject` does."""
    return (yield from _returned(engine, lease, messages, settling.REJECT, reason=reason))


def _returned(
    engine: LeasedEngine,
    lease: Lease,
    messages: Some | None,
    verb: str,
    delays: str = settling.NOW,
    reason: str | None = None,
) -> Exchange[SettleReport]:
    shards = sharded(engine)
    if not lease.parts:
        name = shards.of_lease(lease.id)
        one = shards.engines[name]
        exchange = (
            settling.give_back(one, lease, verb, delays, reason)
            if messages is None
            else settling.settle_some(one, lease, verb, messages, delays, reason or "")
        )
        report = yield from shards.at(name, exchange)
    elif messages is not None:
        report = yield from _some(engine, lease, verb, messages, delays, reason or "")
    else:
        with lease.state:
            yield from _verified(engine, shards, lease)
            report = yield from give_back(engine, shards, lease, verb, delays, reason)
            lease.state.settled = True
    if report.settled > report.dead:
        yield from knock(shards, shards.of_lease(lease.id))
    return report


def give_back(
    engine: LeasedEngine, shards: Sharded, lease: Lease, verb: str, delays: str, reason: str | None
) -> Exchange[SettleReport]:
    """Give back the messages of all parts, and then end the lease at its home.

    Raises LeaseLost if somebody else took the lease over before; if that happened between the two steps, the messages
    are ready nevertheless, and the new holder has none of them.
    """
    parts = {name: part for name, part in lease.parts if not part.state.settled}

    def one(name: str, shard: LeasedEngine) -> Exchange[SettleReport]:
        return settling.give_back(shard, parts[name], verb, delays, reason)

    found = yield from shards.across(parts, one)
    reports = [each for each in found.values() if isinstance(each, SettleReport)]
    for each in found.values():
        if isinstance(each, Exception) and not isinstance(each, LeaseLost):
            raise each
    home = replace(lease, parts=(), state=type(lease.state)())
    try:
        reports.append((yield from settling.give_back(engine, home, verb, delays, reason)))
    except LeaseLost:
        raise engine.lost(lease) from None
    return SettleReport(sum(each.settled for each in reports), sum(each.dead for each in reports))


def _verified(engine: LeasedEngine, shards: Sharded, lease: Lease) -> Exchange[None]:
    """Raise LeaseLost unless the caller holds the home and all parts. Nothing was settled then.

    A part that is settled message by message, to its last, is gone.
    """
    held = [(FIRST, lease), *((name, part) for name, part in lease.parts if not part.state.settled)]
    found = yield from shards.across_many(
        {at: (name, _head(shards.engines[name], part.id)) for at, (name, part) in enumerate(held)}
    )
    for at, head in found.items():
        if isinstance(head, Exception):
            raise head
        if head is None or not text_of(head).startswith(f"{token_of(held[at][1])} "):
            raise engine.lost(lease)


def _head(engine: LeasedEngine, lease_id: str) -> Exchange[bytes | None]:
    head: bytes | None = yield Command(("LINDEX", engine.keys.lease(lease_id), 0))
    return head


def _decided(engine: LeasedEngine, lease: Lease) -> Exchange[SettleReport]:
    """Decide at the home that all parts are acked, and then ack them; others finish that if this client dies."""
    keys, config = engine.keys, engine.config
    parts = {name: part for name, part in lease.parts if not part.state.settled}
    tokens = {name: token_of(part) for name, part in parts.items()}
    ttl_ms = config.settled_ttl_ms if lease.named and not lease.state.returned else 0
    call = script(
        "leased/decide", keys, engine.settings, lease=keys.lease(lease.id), settled=keys.settled(lease.id),
        done=keys.done(lease.id), parts=keys.parts(lease.id), lease_id=lease.id, token=token_of(lease),
        done_ttl_ms=ttl_ms, listed=listing(tokens), also=lease.count, peace_ms=PEACE_MS,
    )  # fmt: skip
    call = confirming(engine, call)
    reply, confirmed = apart(call, (yield call))
    if not reply.startswith(b"acked "):
        raise engine.lost(lease) if reply == b"lost" else ScriptFailed(f"decide got {reply.decode()!r}")
    lease.state.settled = True
    acked = yield from finish_parts(engine, lease.id, tokens)
    count = sum(parts[name].count if acked.get(name) is None else acked[name] for name in parts)
    engine.state(Operation.ACK, count, lease)
    check(engine, f"acked lease {lease.id!r}", confirmed)
    return SettleReport(count)


def _some(
    engine: LeasedEngine, lease: Lease, verb: str, messages: Some, delays: str = settling.NOW, reason: str = ""
) -> Exchange[SettleReport]:
    """Settle messages in the parts that have them; the last one ends the lease, unless the caller only joined it."""
    shards, asked = sharded(engine), of_lease(lease, messages)
    mine: dict[str, list[tuple[int, object]]] = {}
    for place, message in enumerate(asked):
        name, part, index = part_at(lease, message.index)
        mine.setdefault(name, []).append((place, replace(message, lease_id=part.id, index=index)))
    parts = dict(lease.parts)

    def one(name: str, shard: LeasedEngine) -> Exchange[SettleReport]:
        return settling.settle_some(shard, parts[name], verb, [each for _, each in mine[name]], delays, reason)  # type: ignore[misc]

    with lease.state:
        found = checked((yield from shards.across(mine, one)))
        lease.state.partly = True
        lease.state.returned |= verb != "ack"
        outcomes: list[Outcome] = [Outcome.MISSING] * len(asked)
        for name, report in found.items():
            for (place, _), outcome in zip(mine[name], report.outcomes, strict=True):
                outcomes[place] = outcome
        if Outcome.LOST in outcomes:
            engine.lost(lease)
        if not lease.state.joined and all(part.state.settled for _, part in lease.parts):
            with suppress(LeaseLost):  # the messages are settled, whoever has the home
                yield from _decided(engine, lease)
    return SettleReport(
        sum(report.settled for report in found.values()), sum(report.dead for report in found.values()), tuple(outcomes)
    )


def part_at(lease: Lease, index: int) -> tuple[str, Lease, int]:
    """Return the shard and the part of a message, and its place there; a place outside is in the last part."""
    first = 0
    for name, part in lease.parts:
        if index < first + part.count or (name, part) == lease.parts[-1]:
            return name, part, index - first
        first += part.count
    raise ConfigurationError(f"lease {lease.id!r} has no message {index}")
