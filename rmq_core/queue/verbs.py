"""What operators do with a queue and its messages: the methods of `queue.admin`.

A discipline has the method or has not; nothing else says what it can do. A method that it lacks raises `Unsupported`,
which names the disciplines that have it.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from rmq_core.errors import Unsupported
from rmq_core.protocol import DISCIPLINES
from rmq_core.queue.base import E, QueuePart

LACKED = {
    "browse": "view of its messages by state",
    "browse_lease": "list of the messages of a lease",
    "cancel": "way to remove a message by its id",
    "dead_letters": "dead letters",
    "dead_reasons": "dead letters to group",
    "discard": "way to delete chosen dead letters",
    "edit": "way to edit a dead letter",
    "expire_lease": "way to expire a lease by its id",
    "forget": "way to forget a deduplication key",
    "history": "history",
    "journal": "journal",
    "leases": "list of leases",
    "mark": "history",
    "marks": "history",
    "pause": "pause",
    "peek": "peek",
    "purge": "purge",
    "redrive": "dead letters to redrive",
    "redrive_some": "redrive of chosen messages",
    "release_lease": "release of a lease by its id",
    "remembered": "way to look up a deduplication key",
    "resume": "pause",
    "run_now": "way to run a delayed message now",
    "search": "search",
    "server_time": "way to read the server's time",
    "totals": "history",
    "unregister": "way to take a queue off the list",
    "why": "way to explain a message",
}
"""The methods of `queue.admin`, and what a discipline lacks that has not the method."""


class Lacks(Unsupported, AttributeError):
    """The error for a method that the discipline has not. For `hasattr`, the method is missing as any other is."""


class Admin(QueuePart[E]):
    """The base of what a discipline lists for operators."""

    if not TYPE_CHECKING:  # a type checker reports what a discipline does not have

        def __getattr__(self, name: str) -> Any:
            if name not in LACKED:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise lacking_verb(self._queue.discipline, name)


def can(queue: Any, name: str) -> bool:
    """Return whether a queue, or its class, has a method for operators."""
    admin = queue.admin
    return hasattr(admin if isinstance(admin, type) else type(admin), name)


def lacking_verb(discipline: str, name: str, what: str | None = None) -> Lacks:
    """Return the error for a method that a discipline lacks, or for a part of it: `what`."""
    return Lacks(discipline, what or LACKED[name], able_to(name))


def able_to(name: str) -> tuple[str, ...]:
    """Return the disciplines that have a method for operators."""
    return tuple(each.name for each in DISCIPLINES.values() if can(each.load(), name))


def lacking_conditions(discipline: str, name: str) -> Lacks:
    """Return the error for conditions on the messages of a method that takes none."""
    able = tuple(each.name for each in DISCIPLINES.values() if conditional(each.load(), name))
    return Lacks(discipline, f"{name} of messages that meet conditions", able)


def check_conditions(queue: Any, name: str) -> None:
    """Raise Unsupported if a method of the queue's `admin` is missing, or takes no conditions."""
    if not conditional(queue, name):
        raise lacking_conditions(queue.discipline, name)


def conditional(queue: Any, name: str) -> bool:
    """Return whether a method of a queue, or of its class, takes conditions: `where`."""
    return can(queue, name) and "where" in signature(getattr(queue.admin, name)).parameters


def lacks(queue: Any) -> dict[str, str]:
    """Return the methods that a queue has not, and why; `redrive_where` and `purge_where` stand for conditions."""
    found = {name: str(lacking_verb(queue.discipline, name)) for name in LACKED if not can(queue, name)}
    for name in ("redrive", "purge"):
        if not conditional(queue, name):
            found[f"{name}_where"] = str(lacking_conditions(queue.discipline, name))
    return found
