"""The state that the operations of one queue share: its keys, its settings, its unanswered claims. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rmq_core.discipline.leased.config import LeasedConfig
from rmq_core.errors import LeaseLost
from rmq_core.events import EventOutcome, OnEvent, Operation, QueueEvent, tell
from rmq_core.messages import Lease
from rmq_core.policy import milliseconds, seconds
from rmq_core.queue.actions import action, journal_action
from rmq_core.queue.journal import JournalLength, ids_of, note
from rmq_core.queue.keys import LeasedKeys
from rmq_core.queue.settle import lost
from rmq_core.queue.tally import Tally

_PAST = {Operation.ACK: "acked", Operation.NACK: "nacked", Operation.RELEASE: "released", Operation.DEAD: "dead"}
_PUBLISHED = (Operation.PUBLISH, 1)


@dataclass(slots=True, eq=False)
class LeasedEngine:
    """State of a queue object. `unanswered` maps ids of claims that ended without a reply to their nonces."""

    keys: LeasedKeys
    config: LeasedConfig
    on_event: OnEvent | None = None
    registered: int = False
    unanswered: dict[str, str] = field(default_factory=dict)
    tally: Tally | None = field(init=False)
    journal: JournalLength | None = field(init=False)
    own_lease_ms: int | str = field(init=False)
    dedup_window_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally() if self.config.history else None
        self.journal = JournalLength.of(self.config.journal)
        self.own_lease_ms = self.config.lease_ms
        self.dedup_window_ms = milliseconds("dedup_window", self.config.dedup_window)

    @property
    def name(self) -> str:
        return self.keys.name

    @property
    def prefix(self) -> bytes:
        return self.keys.prefix

    @property
    def retry_budget_s(self) -> float:
        return self.config.retry_budget_s

    @property
    def beat_s(self) -> float | None:
        return None if self.config.lease is None else seconds("lease", self.config.lease)

    @property
    def gauged(self) -> dict[str, str | bytes]:
        keys = self.keys
        return {"kind": "list", "ready": keys.ready, "delayed": keys.delayed, "journal": keys.journal}

    def tell(self, operation: Operation, count: int = 1, lease_id: str | None = None, **about: Any) -> None:
        """Emit an event and count it; nothing happens for a count of 0."""
        if count > 0:
            if self.tally is not None:
                self.tally.noted.append((operation, count))
            if self.on_event is not None:
                self.emit(operation, count, lease_id, **about)

    def acted(self, kind: str, count: int, ids: Sequence[str] = (), *, by: str = "", detail: str = "") -> None:
        """Mark what an operator did to messages; nothing happens for a count of 0."""
        if count > 0:
            done = action(kind, by, detail, in_journal=self.journal is not None)
            if self.journal is not None:
                journal_action(done, count, ids)
            if self.tally is not None:
                self.tally.acted(done, count, ids)

    def published(self, message_id: str) -> None:
        """Emit that one message was published."""
        if self.tally is not None:
            self.tally.noted.append(_PUBLISHED)
        if self.on_event is not None:
            self.emit(Operation.PUBLISH, 1, None, message_id=message_id)

    def claimed(self, lease: Lease, lease_ms: int | str) -> None:
        """Emit a claim and note how long its messages have waited."""
        if self.tally is not None:
            self.tally.claimed(lease, lease_ms)
        if self.journal is not None:
            note("claimed", lease=lease, ids=ids_of(lease), n=lease.count)
        if self.on_event is not None:
            self.emit(Operation.CLAIM, lease.count, lease.id)

    def taken(self, lease: Lease, event: str = "taken over") -> None:
        """Emit a takeover or an adoption; `event` is what the journal calls it."""
        self.tell(Operation.TAKEOVER, lease.count, lease.id)
        if self.tally is not None:
            self.tally.taken(lease)
        if self.journal is not None:
            note(event, lease=lease, n=lease.count)

    def ended(
        self, operation: Operation, count: int, lease: Lease, ids: Sequence[str] = (), by: str = "", **about: Any
    ) -> None:
        """Emit that messages of a lease were settled, and note how long after the claim; `ids` unless it is all.

        by: who settled them, if it was not the holder.
        """
        if count > 0:
            if self.journal is not None:
                note(_PAST[operation], lease=lease, ids=ids, n=count, r=about.get("reason") or "", b=by)
            if self.tally is not None:
                self.tally.ended(operation, count, lease)
            if self.on_event is not None:
                self.emit(operation, count, lease.id, **about)

    def emit(self, operation: Operation, count: int, lease_id: str | None, **about: Any) -> None:
        """Call `on_event`, and do not count the event."""
        if self.on_event is not None:
            outcome = EventOutcome.SKIPPED if operation == Operation.DUPLICATE else EventOutcome.SUCCESS
            event = QueueEvent(self.keys.name, operation, outcome, claim_id=lease_id, count=count, **about)
            tell(self.on_event, event)

    def keep(self, result: Any) -> None:
        """Treat a granted lease like a claim without a reply: the caller does not get it."""
        lease = getattr(result, "lease", result)
        if isinstance(lease, Lease) and lease.token and not lease.state.joined:
            self.unanswered[lease.id] = lease.token.partition(".")[2]

    def lost(self, lease: Lease) -> LeaseLost:
        """Mark a lease as lost, emit that event, and return the error to raise."""
        self.tell(Operation.LOST, lease.count, lease.id)
        return lost(lease)

    def lease_ms(self, lease: timedelta | float | None, parameter: str = "lease") -> int | str:
        """Return a lease time in the form that the scripts expect; None means the queue's own lease time."""
        return self.own_lease_ms if lease is None else milliseconds(parameter, lease, minimum=0.001)
