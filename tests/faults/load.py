"""Work on a queue of any discipline, in the background: a producer and a consumer that write down what they did."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rmq_core import Lease, LeaseLost
from rmq_core.errors import NotDurable
from rmq_core.messages import NewMessage
from tests.core.conformance.stages import Stage
from tests.core.conformance.subject import Subject
from tests.faults.patience import PATIENCE_S, eventually

PACE_S = 0.002
BATCH = 5
GROUPS = 7
PUBLICATION = "all"


class Grouped(Subject):
    """A leased queue whose messages wait in exclusive groups; a load publishes into seven, and one publication."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, "leased")
        self.queue.admin.configure(groups="exclusive", max_deliveries=None)

    def message(self, number: int) -> NewMessage:
        """Return a message of a group."""
        return NewMessage(self.payload(number), group=f"g{number % GROUPS}")

    def check(self, load: Load) -> None:
        """Each group kept its order, and the publication has ended with the right counts."""
        for group in range(GROUPS):
            numbers = [number for number in load.delivered if number % GROUPS == group]
            assert numbers == sorted(numbers)
        report = self.queue.publication(PUBLICATION, wait=PATIENCE_S)
        assert report.done
        assert report[1:7] == (load.acked.total(), 0, 0, load.acked.total(), 0, 0)
        assert [group.leases for group in self.queue.admin.groups()] == []


class Sharded(Subject):
    """A leased queue in six shards; each of its moves is one of another shard, and each changes their number."""

    COUNTS = (4, 8, 3, 6)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, "leased")
        self.queue.admin.configure(shards=6, max_deliveries=None)
        self.changes = 0

    def change(self) -> None:
        """Change the number of shards."""
        self.queue.admin.configure(shards=self.COUNTS[self.changes % len(self.COUNTS)])
        self.changes += 1

    @property
    def tag(self) -> str:
        """The hash tag of the last shard."""
        return f"{{{self.name}~{self.queue.config.shards.names[-1]}}}"


def end(loads: Sequence[Load]) -> None:
    """Stop the producers, and let consumers work until nothing is left."""
    for load in loads:
        load.over.set()
    for load in loads:
        for worker in load.workers:
            worker.result(120)


class Load:
    """Numbers that were `published`, those whose publish is `unsure` to be stored, and those `delivered`.

    `acked` were delivered and settled, those whose ack met LeaseLost were not.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.published: list[int] = []
        self.unsure: list[int] = []
        self.delivered: Counter[int] = Counter()
        self.acked: Counter[int] = Counter()
        self.over, self._sent_all = threading.Event(), threading.Event()
        self._resting, self._rested = threading.Event(), threading.Event()
        self.workers = [subject.in_background(self._produce), subject.in_background(self._consume)]

    def rest(self) -> None:
        """Let the consumer finish what it holds and claim no more."""
        self._rested.clear()
        self._resting.set()
        eventually(self._rested.is_set)

    def go_on(self) -> None:
        """Let the consumer claim again."""
        self._resting.clear()

    def grows(self, published: int = 0, acked: int = 0) -> None:
        """Return when so many more messages have been published and acked; an error in the background ends the wait."""
        sent, acked = self._sent() + published, self.acked.total() + acked
        eventually(lambda: self._failed() or (self._sent() >= sent and self.acked.total() >= acked))
        for worker in self.workers:
            if worker.done():
                worker.result()

    def _sent(self) -> int:
        return len(self.published) + len(self.unsure)

    def _failed(self) -> bool:
        return any(worker.done() for worker in self.workers)

    def _produce(self) -> None:
        try:
            self._send(self.subject.open())
        finally:
            self._sent_all.set()

    def _send(self, queue: Any) -> None:
        number = 0
        while not self.over.is_set():
            numbers = range(number, number + (1 if number % 3 else BATCH))
            number = numbers.stop
            try:
                self._publish(queue, numbers)
            except NotDurable:
                self.unsure += numbers
            else:
                self.published += numbers
            time.sleep(PACE_S)

    def _publish(self, queue: Any, numbers: Sequence[int]) -> None:
        if isinstance(self.subject, Grouped):
            queue.publish_many(map(self.subject.message, numbers), publication=PUBLICATION)
        else:
            queue.publish_many(map(self.subject.payload, numbers))

    def _consume(self) -> None:
        queue = self.subject.open()
        while True:
            if self._resting.is_set():
                self._rested.set()
                time.sleep(PACE_S)
                continue
            last = self._sent_all.is_set()
            lease = queue.claim(max_messages=20, wait=0.2)
            if lease is None and last:
                return
            if lease is not None:
                self._work(queue, lease)

    def _work(self, queue: Any, lease: Lease) -> None:
        numbers = [self.subject.number(message.payload) for message in lease.messages]
        self.delivered.update(numbers)
        try:
            queue.ack(lease)
        except LeaseLost:
            return
        except NotDurable:
            pass  # acked, but what is promoted may not know: then the message is delivered again
        self.acked.update(numbers)
