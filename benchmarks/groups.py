"""Compare queues with groups with a plain one, in processor time of the server per message."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import NamedTuple

import redis

from benchmarks.figures import Figure, Findings, Spread
from benchmarks.jobs_tally import Clock
from benchmarks.loops import some
from benchmarks.payloads import payloads
from rmq_core import LeasedQueue
from rmq_core.messages import NewMessage

CALLS, BATCH, MANY = 150, 1000, 100_000
_turns = itertools.count()


class Row(NamedTuple):
    """One way to work on a queue of so many groups."""

    work: str
    policy: str = ""
    groups: int = 0

    @property
    def name(self) -> str:
        return f"{self.work}, {self.policy}, {self.groups:,} group{'s' * (self.groups > 1)}"


SINGLE, BATCHES = ("publish", "claim + ack", "claim_next"), ("publish_many", "claim + ack of a batch")
ROWS = [
    *(Row(work, policy, groups) for work in SINGLE for policy in ("fair", "exclusive") for groups in (10, 1000, MANY)),
    *(Row("claim + ack of chosen groups", policy, 10) for policy in ("fair", "exclusive")),
    *(Row(work, policy, groups) for work in BATCHES for policy in ("fair", "exclusive") for groups in (1, 10, 1000)),
]
PLAIN = {"claim + ack of chosen groups": "claim + ack"}
"""The work on a plain queue with which another one is compared, where it is not the same."""


def measure(port: int, pid: int, rounds: int) -> Findings:
    """Return the plain queue's time over that of each row; a round measures all, one after the other."""
    bench = Groups(port, pid)
    taken: dict[Row, list[float]] = {row: [] for row in (*map(Row, (*SINGLE, *BATCHES)), *ROWS)}
    for number in range(rounds + 1):  # the first one warms up
        for row, times in taken.items():
            spent_s = bench.run(row)
            if number:
                times.append(spent_s)
    bench.close()
    return Findings([_figure(row, taken) for row in ROWS])


def _figure(row: Row, taken: dict[Row, list[float]]) -> Figure:
    own, plain = taken[row], taken[Row(PLAIN.get(row.work, row.work))]
    ratio = Spread.of(base / mine for base, mine in zip(plain, own, strict=True))
    context = f"{median(own) * 1e6:.2f} µs a message, plain {median(plain) * 1e6:.2f} µs"
    return Figure(f"groups: {row.name}", ratio, context=context)


class Groups:
    """The queues, one for each policy."""

    def __init__(self, port: int, pid: int) -> None:
        self.client, self.clock = redis.Redis(port=port), Clock(pid)
        self.queues = {row: self._queue(*row) for row in product(("", "fair", "exclusive"), (False, True))}

    def _queue(self, policy: str, many: bool) -> LeasedQueue:
        """Return a queue; if it has many groups, there is a message in each of them, all the time."""
        queue = LeasedQueue(self.client, f"groups-{policy}-{many}")
        if policy:
            queue.admin.configure(groups=policy)
        if many and policy:
            queue.publish_many(self._messages(Row("", policy, MANY), MANY))
        return queue

    def run(self, row: Row) -> float:
        """Do the work of a row once; return the server's seconds of processor time for each message."""
        queue = self.queues[row.policy, row.groups == MANY]
        if row.groups != MANY:
            queue.admin.purge("ready")
        work, count = self._prepared(queue, row)
        began = self.clock.now()
        work()
        return self.clock.now().since(began).server_s / count

    def close(self) -> None:
        for queue in self.queues.values():
            queue.close()
        self.client.close()

    def _messages(self, row: Row, count: int) -> list[NewMessage]:
        groups = [f"tenant-{next(_turns) % row.groups}" if row.groups else None for _ in range(count)]
        return [NewMessage(text, group=group) for text, group in zip(payloads(count), groups, strict=True)]

    def _prepared(self, queue: LeasedQueue, row: Row) -> tuple[Callable[[], object], int]:
        """Return the work, and how many messages it handles."""
        if row.work == "publish_many":
            batch = self._messages(row, BATCH)
            return lambda: queue.publish_many(batch), BATCH
        queue.publish_many(self._messages(row, CALLS if row.groups == MANY else BATCH))
        if row.work == "claim + ack of a batch":
            return lambda: queue.ack(some(queue.claim(max_messages=BATCH))), BATCH
        return getattr(self, f"_{row.work.replace(' + ', '_and_').replace(' ', '_')}")(queue, row), CALLS

    def _publish(self, queue: LeasedQueue, row: Row) -> Callable[[], None]:
        fresh = self._messages(row, CALLS)

        def work() -> None:
            for message in fresh:
                queue.publish(message.payload, group=message.group)

        return work

    def _claim_and_ack(self, queue: LeasedQueue, _: Row) -> Callable[[], None]:
        def work() -> None:
            for _ in range(CALLS):
                queue.ack(some(queue.claim()))

        return work

    def _claim_next(self, queue: LeasedQueue, _: Row) -> Callable[[], None]:
        def work() -> None:
            lease = some(queue.claim())
            for _ in range(CALLS - 1):
                lease = some(queue.claim_next(ack=lease))
            queue.ack(lease)

        return work

    def _claim_and_ack_of_chosen_groups(self, queue: LeasedQueue, row: Row) -> Callable[[], None]:
        def work() -> None:
            for number in range(CALLS):
                queue.ack(some(queue.claim(groups=[f"tenant-{number % row.groups}"])))

        return work
