"""The verbs of operators: what they can do to a queue and its messages. Every queue class has a method for each.

A discipline lists the verbs that it can do; its other methods raise `Unsupported`, which names those that can.
`pause`, `resume`, `redrive_some` and `release_lease` are older: there, other disciplines have no method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmq_core.errors import Unsupported
from rmq_core.exchange import Exchange
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
"""The verbs that all queue classes have, and what a discipline lacks that cannot do one."""
VERBS = frozenset(
    {*ALL, "pause", "resume", "release_lease", "redrive_some", "redrive", "purge"} | {"redrive_where", "purge_where"}
)
"""All verbs; `redrive_where` and `purge_where` are `redrive` and `purge` with conditions."""


def cannot(discipline: str, verb: str) -> Callable[..., Exchange[Any]]:
    """Return the operation that refuses a verb."""

    def refuse(engine: Any, *given: Any, **named: Any) -> Exchange[Any]:
        del engine, given, named
        yield from ()
        raise lacking_verb(discipline, verb)

    refuse.__name__ = verb
    refuse.__doc__ = f"Raise Unsupported: {discipline} queues have no {ALL[verb]}."
    return refuse


def lacking_verb(discipline: str, verb: str, what: str | None = None) -> Unsupported:
    """Return the error for a verb that a discipline cannot do; it names the disciplines that can."""
    return Unsupported(discipline, what or ALL[verb], able_to(verb))


def able_to(verb: str) -> tuple[str, ...]:
    """Return the disciplines that can do a verb."""
    return tuple(name for name, each in DISCIPLINES.items() if verb in getattr(each.load(), "verbs", ()))
