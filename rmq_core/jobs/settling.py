"""Extends leases and settles them, whole or message by message: ack, nack, release. The token fences every call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from rmq_core.envelope.payloads import one_line
from rmq_core.errors import LeaseLost
from rmq_core.events import Operation
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.jobs.state import GROUP, JobsEngine, refused
from rmq_core.kernel.settling import Some, deadline_of, extend_each, lost, places_of, without_report
from rmq_core.messages import Lease, token_of
from rmq_core.policy import delay_in_ms, milliseconds
from rmq_core.reports import Outcome, SettleReport

_LETTERS = {"s": Outcome.SETTLED, "d": Outcome.DEAD, "a": Outcome.SETTLED_BEFORE, "m": Outcome.MISSING}
_CHUNK = 1000


def extend(engine: JobsEngine, lease: Lease, by: timedelta | float | None = None) -> Exchange[datetime | None]:
    """Move the deadline to `by` (seconds or timedelta, the queue's lease when None) from now; never to an earlier time.

    Costs the same for 1 and for 1,000,000 jobs. Raises LeaseLost.
    """
    return deadline_of(lease, (yield _extension(engine, lease, by)))


def extend_all(engine: JobsEngine, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
    """Extend many leases in one write; return False for each that is lost."""
    return (yield from extend_each(_extension(engine, lease, by) for lease, by in leases))


def ack(engine: JobsEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Finish the jobs of a lease, or some of them.

    When the lease is lost, acking the whole lease raises LeaseLost; acking some messages reports it as their outcome.
    """
    return (yield from _counted(engine, lease, ("ack", 0, ""), messages))


def nack(
    engine: JobsEngine,
    lease: Lease,
    messages: Some | None = None,
    *,
    delay: timedelta | float | None = None,
    reason: str | None = None,
) -> Exchange[SettleReport]:
    """Requeue jobs as failed: the attempt is counted; past `max_attempts` they become dead letters.

    delay: seconds or timedelta before they are ready again. None means no delay: only workers apply a backoff.
    reason: its first 200 characters are kept in the history. When the lease is lost, nacking the whole lease raises
    LeaseLost; nacking some messages reports it as their outcome.
    """
    return (yield from _counted(engine, lease, ("nack", delay_in_ms(delay), one_line(reason)), messages))


def release(engine: JobsEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Requeue jobs at the end of the queue without counting an attempt.

    When the lease is lost, releasing the whole lease raises LeaseLost; releasing some messages reports it as their
    outcome.
    """
    return (yield from _counted(engine, lease, ("release", 0, ""), messages))


def _counted(
    engine: JobsEngine, lease: Lease, how: tuple[str, int, str], messages: Some | None
) -> Exchange[SettleReport]:
    try:
        report = yield from _settle(engine, lease, how, messages)
    except LeaseLost:
        engine.state(Operation.LOST, lease.count, lease)
        raise
    engine.state(Operation(how[0]), report.settled, lease)
    engine.state(Operation.DEAD, report.dead, lease)
    return report


def _settle(
    engine: JobsEngine, lease: Lease, how: tuple[str, int, str], messages: Some | None
) -> Exchange[SettleReport]:
    with lease.state:
        if messages is None:
            return (yield from _all(engine, lease, how))
        places, outcomes = places_of(lease, messages), {}
        open_places = sorted(set(places))
        for first in range(0, len(open_places), _CHUNK):
            chunk = open_places[first : first + _CHUNK]
            reply = without_report(engine, (yield _call(engine, lease, how, chunk)))
            words = reply.decode().split(" ")
            if reply == b"lost":
                lost(lease)
                outcomes.update(dict.fromkeys(chunk, Outcome.LOST))
            elif words[0] == "settled":
                lease.state.partly, lease.state.settled = True, lease.state.settled or words[3] == "0"
                outcomes.update(zip(chunk, (_LETTERS[letter] for letter in words[4]), strict=True))
                if words[3] == "0":  # the lease is empty, so the remaining messages were settled before
                    outcomes.update(dict.fromkeys(open_places[first + _CHUNK :], Outcome.SETTLED_BEFORE))
                    break
            else:
                raise refused(f"settling lease {lease.id!r}", reply)
        found = list(outcomes.values())
        settled = sum(outcome in {Outcome.SETTLED, Outcome.DEAD} for outcome in found)
        return SettleReport(settled, found.count(Outcome.DEAD), tuple(outcomes[place] for place in places))


def _all(engine: JobsEngine, lease: Lease, how: tuple[str, int, str]) -> Exchange[SettleReport]:
    settled = dead = 0
    while True:
        reply = without_report(engine, (yield _call(engine, lease, how, [])))
        words = reply.decode().split(" ")
        if words[0] != "settled":
            raise lost(lease) if reply == b"lost" else refused(f"settling lease {lease.id!r}", reply)
        settled, dead = settled + int(words[1]), dead + int(words[2])
        if words[3] == "0":
            lease.state.settled = True
            return SettleReport(settled, dead)


def _call(engine: JobsEngine, lease: Lease, how: tuple[str, int, str], places: list[int]) -> Call:
    keys, config = engine.keys, engine.config
    verb, delay_ms, reason = how
    return script(
        "jobs/settle", keys, engine.settings, lease=keys.lease(lease.id), done=keys.done(lease.id),
        lease_id=lease.id, token=token_of(lease), verb=verb, delay_ms=delay_ms, reason=reason, group=GROUP,
        done_ttl_ms=milliseconds("settled_ttl", config.settled_ttl) if lease.named else 0, indexes=places,
    )  # fmt: skip


def _extension(engine: JobsEngine, lease: Lease, by: timedelta | float | None) -> Call:
    return script(
        "jobs/extend", engine.keys, lease_id=lease.id, token=token_of(lease), lease_ms=engine.lease_ms(by, "by")
    )
