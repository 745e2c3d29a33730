"""Shows the messages of a queue in one state: ready, delayed, isolated or leased."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from rmq_core.cli import records
from rmq_core.cli.output import ago
from rmq_core.envelope.codec import Message
from rmq_core.queue.verbs import can, lacking_verb

_LEASES, _SLICE = 1000, 100


class State(StrEnum):
    """The states whose messages can be shown."""

    READY = "ready"
    DELAYED = "delayed"
    ISOLATED = "isolated"
    LEASED = "leased"


class FoundMessage(NamedTuple):
    """A message, with the end of its delay if it is delayed, or the lease and owner that hold it."""

    message: Message
    due: datetime | None = None
    lease: str | None = None
    owner: str | None = None


COLUMNS = {
    State.READY: records.MESSAGES,
    State.DELAYED: (*records.MESSAGES, "due in"),
    State.ISOLATED: records.MESSAGES,
    State.LEASED: (*records.MESSAGES, "lease", "owner"),
}


def seen(queue: Any, state: State, count: int) -> list[FoundMessage]:
    """Return at most `count` messages in that state, claiming none. Raises Unsupported if the discipline cannot."""
    if state == State.READY:
        return [FoundMessage(message) for message in queue.admin.peek(count)]
    if not can(queue, "browse"):
        raise lacking_verb(queue.discipline, "browse", f"view of {state} messages")
    return list(islice(_held(queue) if state == State.LEASED else _waiting(queue, state), count))


def row(state: State, one: FoundMessage) -> tuple[object, ...]:
    """Return a message as a row under the columns of its state."""
    shown = records.message_row(one.message)
    if state == State.DELAYED:
        left = None if one.due is None else max(0.0, one.due.timestamp() - time.time())
        return (*shown, ago(left))
    return (*shown, one.lease, one.owner) if state == State.LEASED else shown


def record(queue: str, state: State, one: FoundMessage) -> dict[str, Any]:
    """Return a message as JSON, with `due_at` if it is delayed, and `lease` and `owner` if it is leased."""
    about: dict[str, Any] = records.message_record(queue, one.message)
    if state == State.DELAYED:
        about["due_at"] = one.due.isoformat() if one.due else None
    elif state == State.LEASED:
        about |= {"lease": one.lease, "owner": one.owner}
    return about


def _waiting(queue: Any, state: State) -> Iterator[FoundMessage]:
    offset = 0
    while (page := queue.admin.browse(state.value, offset, _SLICE)).messages:
        for place, message in enumerate(page.messages):
            yield FoundMessage(message, page.due[place] if page.due else None)
        offset += len(page.messages)


def _held(queue: Any) -> Iterator[FoundMessage]:
    for lease in queue.admin.leases(_LEASES):
        for lo in range(0, lease.count, _SLICE):
            for message in queue.admin.browse_lease(lease.id, lo, min(lo + _SLICE, lease.count)):
                yield FoundMessage(message, None, lease.id, lease.owner)
