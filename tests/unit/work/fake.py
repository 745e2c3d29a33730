"""A queue in memory with claiming under a name and settling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from rmq_core import Lease, LeaseAlreadySettled, LeaseLost, Message, QueueUnavailable
from rmq_core.reports import Outcome, SettledRecord, SettleReport


class FakeQueue:
    """Leases by id. `away`: Redis does not answer; `taken`: others own the messages of each lease by now."""

    name = "q"

    def __init__(self, count: int = 3) -> None:
        self.owners: dict[str, str] = {}
        self.records: dict[str, SettledRecord] = {}
        self.did: list[tuple[Any, ...]] = []
        self.away = self.taken = False
        self._count = count

    def lease_info(self, lease_id: str) -> Any:
        owner = self.owners.get(lease_id)
        return None if owner is None else SimpleNamespace(owner=owner)

    def settled(self, lease_id: str) -> SettledRecord | None:
        return self.records.get(lease_id)

    def claim(self, *, max_messages: int, lease_id: str, owner: str, lease: Any = None, **_: Any) -> Lease:
        if lease_id in self.records:
            raise LeaseAlreadySettled(lease_id, self.records[lease_id].acked)
        self.owners[lease_id] = owner
        return Lease("q", lease_id, owner, min(max_messages, self._count), None, "1.1")

    @property
    def admin(self) -> FakeQueue:
        return self

    def release_lease(self, lease_id: str, if_owner: str) -> SettleReport:
        assert self.owners.pop(lease_id) == if_owner
        return SettleReport(self._count)

    def messages(self, lease: Lease) -> Iterator[Message]:
        return (Message(str(index), b"", "s", {}, 0, 1, index, lease.id) for index in range(lease.count))

    def extend(self, lease: Lease, by: float | None) -> None:
        self._settle("extend", lease, None, by)

    def ack(self, lease: Lease, messages: Sequence[Message] | None = None) -> SettleReport:
        return self._settle("ack", lease, messages)

    def nack(self, lease: Lease, messages: Any = None, *, reason: Any = None, delay: Any = None) -> SettleReport:
        return self._settle("nack", lease, messages, reason)

    def release(self, lease: Lease, messages: Sequence[Message] | None = None) -> SettleReport:
        return self._settle("release", lease, messages)

    def _settle(self, verb: str, lease: Lease, messages: Any, *told: Any) -> SettleReport:
        if self.away:
            raise QueueUnavailable("Redis is away")
        if self.taken and messages is None:
            raise LeaseLost(lease.id)
        some = "all" if messages is None else [message.index for message in messages]
        self.did.append((verb, some, *told))
        if messages is None:
            lease.state.settled = verb != "extend"
            return SettleReport(lease.count)
        outcome = Outcome.LOST if self.taken else Outcome.SETTLED
        return SettleReport(len(messages), 0, (outcome,) * len(messages))
