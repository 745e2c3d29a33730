"""The timeline of one message: the steps that are known, and sentences about what cannot be known. Without IO."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened to a message. `who` is an owner or a publisher, `lease_id` the lease it happened under.

    source: where it is known from: `message`, `lease`, `marks` or `journal`. at: None when the time is not known.
    """

    at: datetime | None
    what: str
    who: str = ""
    lease_id: str = ""
    detail: str = ""
    source: str = "message"

    def record(self) -> dict[str, Any]:
        """Return the step as JSON."""
        return {**asdict(self), "at": self.at.isoformat() if self.at else None}


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is known about a message. state: the place in the queue that holds it now; `gone` if none does.

    steps: oldest first. unknown: what cannot be known, and why. claims, acks: how often it was claimed and acked
    according to the journal; None without one.
    """

    queue: str
    message_id: str
    state: str
    steps: tuple[Step, ...] = ()
    unknown: tuple[str, ...] = ()
    claims: int | None = None
    acks: int | None = None

    @property
    def verdict(self) -> str:
        """A sentence on whether the message was processed more than once, according to the journal."""
        if self.claims is None or self.acks is None:
            return "how often it was processed is unknown without a journal"
        if self.claims > 1:
            return (
                f"delivered {self.claims} times, acked {_times(self.acks)}: it may have been processed more than once"
            )
        return f"delivered {_times(self.claims)}, acked {_times(self.acks)}"

    def record(self) -> dict[str, Any]:
        """Return the timeline as JSON."""
        plain = {name: getattr(self, name) for name in ("queue", "message_id", "state", "claims", "acks", "verdict")}
        return {**plain, "steps": [step.record() for step in self.steps], "unknown": list(self.unknown)}


def _times(count: int) -> str:
    return "never" if count == 0 else "once" if count == 1 else f"{count} times"
