"""The operations of a worker: get jobs and report their outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rmq_core.discipline.jobs.engine import JobsEngine, grouped, refused
from rmq_core.discipline.jobs.keys import GROUP
from rmq_core.discipline.jobs.operations.managing import entries_of
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import QueueFull
from rmq_core.exchange import Call, Encodable, Exchange, Listen, Sleep
from rmq_core.exchange.scripts import script
from rmq_core.policy import milliseconds
from rmq_core.queue.settle import without_trimmed

_PAUSED_S = 1.0  # how often a worker looks whether a paused queue was resumed


class Delivery(NamedTuple):
    """An entry of the stream that a worker holds; `before` counts earlier deliveries that no worker settled."""

    entry: str
    envelope: bytes
    before: int = 0


class Done(NamedTuple):
    """A pending report of a worker: ids that became active or completed, entries to finish, results by job id."""

    active: list[str]
    completed: list[str]
    entries: list[str]
    results: list[tuple[str, bytes]]

    @classmethod
    def nothing(cls) -> Done:
        return cls([], [], [], [])

    def joined(self, later: Done) -> Done:
        """Return one report of both, this one first."""
        return Done(
            self.active + later.active,
            self.completed + later.completed,
            self.entries + later.entries,
            self.results + later.results,
        )

    def __bool__(self) -> bool:
        return bool(self.active or self.entries)


class Verdict(NamedTuple):
    """What to do with a failed job. attempts: how many have failed by now. delay_s: None makes it a dead letter."""

    attempts: int
    delay_s: float | None
    reason: str


def turn(engine: JobsEngine, consumer: str, done: Done, count: int) -> Exchange[list[Delivery]]:
    """Report finished jobs and read up to `count` jobs, in one round trip."""
    entries = yield from grouped(engine, lambda: _turn(engine, consumer, done, count))
    if count:
        engine.paused = entries == [b"paused"]
    return [] if engine.paused else _deliveries(entries)


def listen(engine: JobsEngine, consumer: str, count: int, block_ms: int) -> Exchange[list[Delivery]]:
    """Read up to `count` jobs, waiting for the first of them."""
    if engine.paused:  # a read would get the jobs of silent workers all the same
        yield Sleep(min(_PAUSED_S, block_ms / 1000))
        return []
    claim: tuple[Encodable, ...] = ("CLAIM", engine.own_lease_ms) if engine.native else ()
    words = ("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, "BLOCK", block_ms)
    want = Listen((*words, *claim, "STREAMS", engine.keys.ready, ">"), block_ms)
    reply = yield from grouped(engine, lambda: want)
    return _deliveries(entries_of(reply))


def steal(engine: JobsEngine, consumer: str, start: str, count: int) -> Exchange[tuple[str, list[Delivery]]]:
    """Take over jobs of silent workers, if the server cannot do so in a read. Return the next `start`, and the jobs."""
    call = script(
        "jobs/steal", engine.keys, group=GROUP, consumer=consumer, stale_ms=engine.own_lease_ms, start=start, most=count
    )
    reply: Any = yield from grouped(engine, lambda: call)
    return reply[0].decode(), _deliveries(reply[1])


def beat(engine: JobsEngine, consumer: str, entries: Sequence[str]) -> Exchange[list[str]]:
    """Send the heartbeat of these jobs. Return those that the worker no longer holds."""
    lost: list[str] = []
    for first in range(0, len(entries), 1000):
        some = entries[first : first + 1000]
        call = script("jobs/beat", engine.keys, group=GROUP, consumer=consumer, entries=some)
        reply: Any = yield from grouped(engine, lambda call=call: call)  # type: ignore[misc]
        lost += [entry.decode() for entry in reply]
    return lost


def fail(
    engine: JobsEngine,
    consumer: str,
    delivery: Delivery,
    job_id: str,
    verdict: Verdict,
    *,
    stored: bool = False,
    unsent: bool = False,
) -> Exchange[bytes]:
    """Delay a failed job for its retry or make it a dead letter, in one atomic step; `gone` if it is settled already.

    stored: store the failure of a dead letter as its result, which ends `wait_for_result`. unsent: its event `active`
    is not emitted yet.
    """
    keys, config = engine.keys, engine.config
    reply: bytes = yield script(
        "jobs/fail", keys, engine.settings, result=keys.result(job_id), group=GROUP, native=engine.flag,
        entry_id=delivery.entry, attempts=verdict.attempts, to_dead="1" if verdict.delay_s is None else "0",
        delay_ms=0 if verdict.delay_s is None else milliseconds("backoff", verdict.delay_s), consumer=consumer,
        reason=one_line(verdict.reason),
        result_ttl_ms=milliseconds("result_ttl", config.result_ttl) if stored else 0,
        emit_active="1" if unsent else "0",
    )  # fmt: skip
    reply = without_trimmed(engine, reply)
    if reply not in {b"later", b"dead", b"gone"}:
        raise refused("fail", reply)
    return reply


def requeue(engine: JobsEngine, consumer: str, deliveries: Sequence[Delivery]) -> Exchange[int]:
    """Requeue jobs that were not begun, counting no attempt. Jobs that another worker holds by now stay there."""
    back = 0
    for first in range(0, len(deliveries), 500):
        jobs: list[Encodable] = []
        for one in deliveries[first : first + 500]:
            jobs += (one.entry, one.before)
        call = script("jobs/requeue", engine.keys, group=GROUP, consumer=consumer, native=engine.flag, jobs=jobs)
        back += yield from grouped(engine, lambda call=call: call)  # type: ignore[misc]
    return back


def leave(engine: JobsEngine, consumer: str) -> Exchange[bool]:
    """Remove the worker from the consumer group. Return False while it still holds jobs."""
    call = script("jobs/leave", engine.keys, group=GROUP, consumer=consumer)
    try:
        return bool((yield from grouped(engine, lambda: call)) == b"left")
    except QueueFull:  # Redis 6.2 refuses this, too, at its `maxmemory`; a consumer without jobs does no harm
        return False


def _turn(engine: JobsEngine, consumer: str, done: Done, count: int) -> Call:
    keys, config = engine.keys, engine.config
    return script(
        "jobs/turn", keys, engine.settings, results=[keys.result(job_id) for job_id, _ in done.results],
        group=GROUP, consumer=consumer, most=count, native=engine.flag, stale_ms=engine.own_lease_ms,
        result_ttl_ms=milliseconds("result_ttl", config.result_ttl) if done.results else 0,
        active=" ".join(done.active), completed=" ".join(done.completed),
        finished=[value for _, value in done.results] + done.entries,
    )  # fmt: skip


def _deliveries(entries: Any) -> list[Delivery]:
    return [
        Delivery(entry[0].decode(), entry[1][1], entry[3] if len(entry) > 3 else 0)
        for entry in entries or ()
        if entry[1]
    ]
