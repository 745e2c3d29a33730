"""The verbs of operators: what they can do to a queue and its messages.

A discipline has a method for each verb that it lists. `rmq` and the console refuse the others with `Unsupported`, which
names the disciplines that have it.
"""

from __future__ import annotations

from rmq_core.errors import Unsupported
from rmq_core.protocol import DISCIPLINES

ALL = {
    "expire_lease": "way to expire a lease by its id",
    "run_now": "way to run a delayed message now",
    "cancel": "way to remove a message by its id",
    "discard": "way to delete chosen dead letters",
    "redrive_edited": "way to edit a dead letter",
    "search": "search",
    "dead_reasons": "dead letters to group",
}
"""What a discipline lacks that cannot do a verb."""
VERBS = frozenset(
    {*ALL, "pause", "resume", "release_lease", "redrive_some", "redrive", "purge"} | {"redrive_where", "purge_where"}
)
"""All verbs; `redrive_where` and `purge_where` are `redrive` and `purge` with conditions."""


def lacking_verb(discipline: str, verb: str, what: str | None = None) -> Unsupported:
    """Return the error for a verb that a discipline cannot do; it names the disciplines that can."""
    return Unsupported(discipline, what or ALL[verb], able_to(verb))


def able_to(verb: str) -> tuple[str, ...]:
    """Return the disciplines that can do a verb."""
    return tuple(name for name, each in DISCIPLINES.items() if verb in getattr(each.load(), "verbs", ()))
