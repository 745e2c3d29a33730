"""What the discipline of a queue can do, and why not the rest, in words that the page shows beside each action."""

from __future__ import annotations

from typing import Any, Literal

from rmq_core import Unsupported
from rmq_core.protocol import AsyncWorkQueue
from rmq_core.queue.verbs import ALL, VERBS, lacking_verb

LACKED = {
    **ALL,
    "pause": "pause",
    "resume": "pause",
    "release_lease": "release of a lease by its id",
    "redrive": "dead letters to redrive",
    "redrive_some": "redrive of chosen messages",
    "redrive_where": "redrive of messages that meet conditions",
    "purge": "purge",
    "purge_where": "purge of messages that meet conditions",
}
"""What a discipline lacks that cannot do a verb."""
PastKind = Literal["history", "why"]
LACKED_PAST: dict[PastKind, str] = {"history": "history", "why": "way to explain a message"}


def able(queue: AsyncWorkQueue) -> dict[str, Any]:
    """Return what the page can show beyond numbers; the discipline `leased` supports all of it."""
    return {
        "leases": hasattr(queue, "leases"),
        "list": ["ready", "delayed", "dead"] if hasattr(queue, "browse") else ["ready", "dead"],
        "choose": hasattr(queue, "redrive_some"),
        "release": hasattr(queue, "release_lease"),
    }


def past_of(queue: Any) -> dict[PastKind, bool]:
    """Return whether a queue, or its class, counts what happens, and whether it explains a message."""
    return {"history": queue.capabilities.history, "why": hasattr(queue, "why")}


def lacks(queue: Any) -> dict[str, str]:
    """Return why the queue cannot do each verb that it cannot do."""
    return {verb: str(refusal(queue, verb)) for verb in sorted(VERBS - verbs_of(queue))}


def verbs_of(queue: Any) -> frozenset[str]:
    """Return the verbs that the queue can do."""
    found: frozenset[str] = getattr(queue, "verbs", frozenset())
    return found


def refusal(queue: Any, verb: str) -> Unsupported:
    """Return the error for a verb that the queue cannot do; it names the disciplines that can."""
    return lacking_verb(queue.discipline, verb, LACKED[verb])


def require(queue: Any, verb: str) -> None:
    """Raise Unsupported if the queue cannot do a verb."""
    if verb not in verbs_of(queue):
        raise refusal(queue, verb)
