"""One message at a time, blocking: the cost of an RMQ call compared with a bare `EVALSHA "return 1"` of redis-py."""

from __future__ import annotations

import redis

from benchmarks.figures import Figure, Findings
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, Laps, race
from rmq_core import Lease, LeasedConfig, LeasedQueue

CALLS = 150
NAMES = ("publish", "deduplicated publish", "claim + ack", "claim_next loop")


def measure(port: int, rounds: int) -> Findings:
    loops = Loops(port)
    try:
        return found(race(loops.bare(), loops.contenders(), rounds), "sync")
    finally:
        loops.close()


def found(laps: dict[str, Laps], facade: str) -> Findings:
    """The figures of one façade."""
    bare = f"bare EVALSHA {laps['bare'].rate:,.0f}/s"
    return Findings(
        [Figure(f"{name}, {facade}", laps[name].ratio, context=f"{laps[name].rate:,.0f}/s, {bare}") for name in NAMES]
    )


def some(lease: Lease | None) -> Lease:
    """Return the lease; raise an error for None, because a claim without a message would make the benchmark invalid."""
    if lease is None:
        raise RuntimeError("there was nothing to claim: the benchmark is broken")
    return lease


class Loops:
    """The contenders, each a slice of CALLS calls."""

    def __init__(self, port: int) -> None:
        self.client = redis.Redis(port=port)
        self.sha = self.client.script_load("return 1")
        self.queue = LeasedQueue(self.client, "loops")
        self.unique = LeasedQueue(self.client, "loops-unique", LeasedConfig(dedup=True))
        self.fresh = payloads(CALLS)

    def bare(self) -> Contender:
        return Contender("bare", self._bare, CALLS)

    def contenders(self) -> list[Contender]:
        steps = (self._publish, self._publish_unique, self._claim_and_ack, self._claim_next)
        prepare = (self._refresh, self._refresh, self._fill, self._fill)
        return [
            Contender(name, run, CALLS, before, self._empty)
            for name, run, before in zip(NAMES, steps, prepare, strict=True)
        ]

    def close(self) -> None:
        self.queue.close()
        self.unique.close()
        self.client.close()

    def _bare(self) -> None:
        for _ in range(CALLS):
            self.client.evalsha(self.sha, 0)

    def _publish(self) -> None:
        for payload in self.fresh:
            self.queue.publish(payload)

    def _publish_unique(self) -> None:
        for payload in self.fresh:
            self.unique.publish(payload)

    def _claim_and_ack(self) -> None:
        for _ in range(CALLS):
            self.queue.ack(some(self.queue.claim()))

    def _claim_next(self) -> None:
        lease = some(self.queue.claim())
        for _ in range(CALLS - 1):
            lease = some(self.queue.claim_next(ack=lease))
        self.queue.ack(lease)

    def _refresh(self) -> None:
        self.fresh = payloads(CALLS)

    def _fill(self) -> None:
        self.queue.publish_many(self.fresh)

    def _empty(self) -> None:
        self.queue.admin.purge("ready")
        self.unique.admin.purge("ready")
