"""Compare a thousand messages at a time, blocking, with redis-py's pipeline of a thousand LPUSH."""

from __future__ import annotations

import redis

from benchmarks.figures import Figure, Findings
from benchmarks.loops import some
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, Laps, race
from rmq_core import LeasedConfig, LeasedQueue, Message

BATCH, BATCHES = 1000, 2
MESSAGES = BATCH * BATCHES
NAMES = (
    "publish_many",
    "deduplicated publish_many",
    "claim + ack of a batch",
    "no-op handler fed by process",
)


def measure(port: int, rounds: int) -> Findings:
    batches = Batches(port)
    try:
        return found(race(batches.bare(), batches.contenders(), rounds), "sync")
    finally:
        batches.close()


def found(laps: dict[str, Laps], facade: str) -> Findings:
    """The figures of one façade."""
    bare = f"pipelined LPUSH {laps['bare'].rate:,.0f}/s"
    return Findings(
        [
            Figure(f"{name}, {facade}", laps[name].ratio, context=f"{laps[name].rate:,.0f} messages/s, {bare}")
            for name in NAMES
        ]
    )


def slices(fresh: list[str]) -> list[list[str]]:
    return [fresh[first : first + BATCH] for first in range(0, MESSAGES, BATCH)]


def handle(message: Message) -> None:
    """Do nothing with the message."""


class Batches:
    """The contenders, each BATCHES batches of BATCH messages."""

    def __init__(self, port: int) -> None:
        self.client = redis.Redis(port=port)
        self.queue = LeasedQueue(self.client, "batches")
        self.unique = LeasedQueue(self.client, "batches-unique", LeasedConfig(dedup=True))
        self.fresh = slices(payloads(MESSAGES))

    def bare(self) -> Contender:
        return Contender("bare", self._bare, MESSAGES, after=self._empty)

    def contenders(self) -> list[Contender]:
        steps = (self._publish, self._publish_unique, self._claim_and_ack, self._process)
        prepare = (self._refresh, self._refresh, self._publish, self._publish)
        return [
            Contender(name, run, MESSAGES, before, self._empty)
            for name, run, before in zip(NAMES, steps, prepare, strict=True)
        ]

    def close(self) -> None:
        self.queue.close()
        self.unique.close()
        self.client.close()

    def _bare(self) -> None:
        for batch in self.fresh:
            pipeline = self.client.pipeline(transaction=False)
            for payload in batch:
                pipeline.lpush("batches-bare", payload)
            pipeline.execute()

    def _publish(self) -> None:
        for batch in self.fresh:
            self.queue.publish_many(batch)

    def _publish_unique(self) -> None:
        for batch in self.fresh:
            self.unique.publish_many(batch)

    def _claim_and_ack(self) -> None:
        for _ in range(BATCHES):
            self.queue.ack(some(self.queue.claim(max_messages=BATCH)))

    def _process(self) -> None:
        for _ in range(BATCHES):
            with self.queue.process(max_messages=BATCH) as batch:
                for message in batch:
                    handle(message)

    def _refresh(self) -> None:
        self.fresh = slices(payloads(MESSAGES))

    def _empty(self) -> None:
        self.queue.admin.purge("ready")
        self.unique.admin.purge("ready")
        self.client.delete("batches-bare")
